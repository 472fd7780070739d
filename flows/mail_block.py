"""A notification block of Prefect that sends e-mail through any mail server; importing it imports Prefect.

`prefect block register -m flows.mail_block` makes it known to a server, for the setting `notify.block`.
Prefect's own block for e-mail knows one provider only.
"""

from prefect.blocks.notifications import AppriseNotificationBlock
from pydantic import Field, SecretStr


class MailBlock(AppriseNotificationBlock):
    """Send e-mail through a mail server.

    Attributes
    ----------
    url : SecretStr
        Address of Apprise: `mailtos://user:password@smtp.example.org?from=me@example.org&to=you@example.org`;
        `mailto:` without TLS.
    """

    _block_type_name = "labelscape e-mail"
    _block_type_slug = "labelscape-email"

    url: SecretStr = Field(
        default=...,
        title="Mail server",
        description="Address of Apprise: server, login, sender and recipients",
        examples=["mailtos://user:password@smtp.example.org?from=me@example.org&to=you@example.org"],
    )
