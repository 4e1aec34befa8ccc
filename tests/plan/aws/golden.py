"""Writes the reviewed user data anew: ``python -m tests.plan.aws.golden``."""

from __future__ import annotations

from tests.plan.aws.conftest import GOOD, ROOT, aws_of, planned

FOLDER = ROOT / "tests" / "cases" / "aws" / "user-data"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file in FOLDER.glob("*.mime"):
        file.unlink()
    for name, plan in (
        ("example", aws_of(planned("example-aws", ROOT / "stacks"))),
        ("images", aws_of(planned("aws-images", GOOD))),
    ):
        for group in plan.node_groups:
            (FOLDER / f"{group.pool}-of-{name}.mime").write_text(group.user_data)


if __name__ == "__main__":
    main()
