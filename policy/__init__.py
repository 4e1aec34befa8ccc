"""Rules that refuse what must never ship: public engines, loose pins.

The package imports nothing of ``tokenworks``. Labels and resource shapes are the contract, so the
same rules judge plain manifests, recorded programs, and the resources of a real update.
"""
