"""What can go wrong between records and columns."""


class NoColumns(ValueError):
    """This schema has no columns in Spark, or these columns no schema; the message says why."""


class NotEncodable(ValueError):
    """Rows do not fit the schema they should be written with; the message names the field.

    `row`: the first that does not; None: it is a whole column.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class UnknownSchema(LookupError):
    """There is no schema of this id: what `schema_by_id` raises so that its records are bad.

    Any other error of `schema_by_id` (a registry that does not answer) ends the decoding.
    """
