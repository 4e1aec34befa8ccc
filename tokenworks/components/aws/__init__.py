"""One Pulumi component for each thing that an AWS environment stands on."""
