"""Rows of a PostgreSQL database as a Parquet file."""

import os
from pathlib import Path

import pyarrow as pa
from adbc_driver_postgresql import dbapi
from pyarrow import parquet

from tfglm.addresses import HIDDEN, redacted
from tfglm.errors import UserError


def fetch(address: str, query: str, path: Path) -> None:
    """Write the rows that a query selects to a Parquet file, in blocks, so that their number does not matter.

    The address is `postgresql://user@host:port/name`; passwords come from ~/.pgpass and the like (libpq). The transaction is
    read-only, so that a mistake changes nothing. Values of the type numeric become the nearest floating-point numbers.
    Raises UserError, with what the database says.
    """
    try:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            # The driver puts the query into parentheses: a comment at its end ends with the line.
            cursor.execute(query.strip().rstrip(";") + "\n")
            _write(cursor.fetch_record_batch(), path, redacted(address))
    except (dbapi.Error, pa.ArrowException, OSError) as error:
        said = str(error).partition("\n\nQuery was:")[0].strip()
        if secret := os.environ.get("PGPASSWORD"):
            said = said.replace(secret, HIDDEN)
        raise UserError(
            f"{redacted(address)}: {said}\n  check `path` and `query` in data.files, and the space on the disk"
        ) from None


def _write(batches: pa.RecordBatchReader, path: Path, where: str) -> None:
    names = batches.schema.names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{where}: the query has two columns `{twice[0]}`; rename one with AS")
    schema = pa.schema([pa.field(field.name, _stored_type(field.type)) for field in batches.schema])
    for field in schema:
        if pa.types.is_nested(field.type) or pa.types.is_interval(field.type) or pa.types.is_null(field.type):
            raise UserError(
                f"{where}: column `{field.name}` has a type that no layout has; cast it in the query, or leave it out"
            )
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            columns = [_stored(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """The type in the file: of a numeric, which comes as text, a number; of json and the like, their text."""
    if isinstance(type_, pa.OpaqueType) and type_.type_name == "numeric":
        return pa.float64()
    if isinstance(type_, pa.UuidType):
        return pa.string()
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def _stored(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(column.type, pa.UuidType):
        return pa.array([value and str(value) for value in column.to_pylist()], type_)
    return (column.storage if isinstance(column, pa.ExtensionArray) else column).cast(type_)
