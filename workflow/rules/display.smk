# Shows stages, results and errors instead of Snakemake's own output.

from importlib.util import find_spec

from snakemake.logging import logger


def show_stages():
    """Replace Snakemake's output by that of scripts/snakemake_logger_plugin_tfglm. Options that ask for Snakemake's own keep it, and so
    does a workflow that uses this one as a module."""
    settings = workflow.logger_manager.settings
    asked = settings.dryrun or settings.verbose or settings.printshellcmds or settings.quiet or settings.debug_dag
    ours = [SCRIPTS.with_name("Snakefile"), SCRIPTS.parent / "workflow" / "Snakefile"]
    is_module = Path(workflow.main_snakefile).resolve() not in [path.resolve() for path in ours]
    replaced = [handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"]
    if not workflow.is_main_process or asked or is_module or not replaced or not find_spec("rich"):
        return
    from snakemake_logger_plugin_tfglm import LogHandler

    shown = LogHandler(settings, None)
    for handler in replaced:
        shown.setFormatter(handler.formatter)
        for each in handler.filters:
            shown.addFilter(each)
        logger.removeHandler(handler)
    logger.addHandler(shown)


show_stages()
