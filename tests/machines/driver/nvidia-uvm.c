// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for NVIDIA's unified memory module: it holds a device number and nothing else.
 *
 * As with the real one, no device announces it and loading it makes no node: `nvidia-modprobe -u`
 * does both, or nobody.
 */
#include <linux/fs.h>
#include <linux/module.h>

static const struct file_operations node_operations = { .owner = THIS_MODULE };
static int major;

static int __init nvidia_uvm_init(void)
{
	major = register_chrdev(0, "nvidia-uvm", &node_operations);
	return major < 0 ? major : 0;
}

static void __exit nvidia_uvm_exit(void)
{
	unregister_chrdev(major, "nvidia-uvm");
}

module_init(nvidia_uvm_init);
module_exit(nvidia_uvm_exit);
MODULE_DESCRIPTION("A stand-in for NVIDIA's unified memory module");
MODULE_VERSION(STAND_IN_VERSION);
MODULE_LICENSE("GPL");
