#!/bin/sh
# The state of a job: prints `running`, `success` or `failed`, as Snakemake asks. If the scheduler does not answer, or not yet,
# the script asks again; otherwise a short failure would end the run.
#
#   status.sh pbs|sge|lsf <number of the job>

scheduler=$1
job=$2

by_code() {
    case $1 in
    0) echo success ;;
    '') echo running ;;
    *) echo failed ;;
    esac
}

case $scheduler in
pbs)
    # -x: ended jobs too, if the server keeps them (job_history_enable).
    answer=$(qstat -x -f "$job" 2>/dev/null)
    by_code "$(printf '%s\n' "$answer" | sed -n 's/^ *Exit_status = //p')"
    ;;
sge)
    # A job is in the accounts some seconds after it has left the queue.
    if qstat -j "$job" >/dev/null 2>&1; then
        echo running
    else
        by_code "$(qacct -j "$job" 2>/dev/null | awk '$1 == "failed" && $2 { code = 1 } $1 == "exit_status" { print code ? code : $2 }')"
    fi
    ;;
lsf)
    case $(bjobs -noheader -o stat "$job" 2>/dev/null) in
    DONE*) echo success ;;
    EXIT*) echo failed ;;
    *) echo running ;;
    esac
    ;;
*)
    echo "status.sh: pbs, sge or lsf, and not \`$scheduler\`" >&2
    exit 2
    ;;
esac
