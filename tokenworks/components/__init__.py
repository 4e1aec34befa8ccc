"""One Pulumi component per thing; each creates what a plan decided and computes nothing."""
