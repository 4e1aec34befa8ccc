// SPDX-License-Identifier: GPL-2.0
/*
 * A stand-in for NVIDIA's kernel module: the same name, aliases, files and failures, no GPU.
 *
 * It binds to NVIDIA's display controllers as the real one does, refuses to load where another
 * driver has them, and shows its version in /proc/driver/nvidia/version. A fault to have is given
 * as a module option, so that a test can break a machine by one line below /etc/modprobe.d.
 */
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#define MAJOR_NVIDIA 195
#define MINOR_CONTROL 255
#define MAX_GPUS 32
#define VENDOR_NVIDIA 0x10de

static char *fault = "";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "load: refuse to load; version: show another version; xid: log an Xid");

static struct pci_dev *found[MAX_GPUS];
static unsigned int count;
static struct class *nodes;
static struct proc_dir_entry *tree;

static const char *shown_version(void)
{
	return strcmp(fault, "version") ? STAND_IN_VERSION : "1.2.3";
}

static int show_version(struct seq_file *file, void *unused)
{
	seq_printf(file, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\n",
		   shown_version());
	seq_printf(file, "GCC version:  gcc %s\n", __VERSION__);
	return 0;
}

static int show_gpu(struct seq_file *file, void *unused)
{
	struct pci_dev *gpu = pde_data(file_inode(file->file));
	unsigned int minor = 0;

	while (found[minor] != gpu)
		minor++;
	seq_printf(file, "Model: \t\t NVIDIA H100 80GB HBM3\nBus Location: \t %s\n", pci_name(gpu));
	seq_printf(file, "Device Minor: \t %u\n", minor);
	return 0;
}

static int open_single(struct inode *inode, struct file *file)
{
	return single_open(file, show_gpu, NULL);
}

static const struct proc_ops gpu_file = {
	.proc_open = open_single,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static const struct file_operations node_operations = { .owner = THIS_MODULE };

static int probe(struct pci_dev *gpu, const struct pci_device_id *id)
{
	if (count == MAX_GPUS)
		return -ENOSPC;
	found[count++] = gpu;
	return 0;
}

static const struct pci_device_id devices[] = {
	{ PCI_DEVICE(VENDOR_NVIDIA, PCI_ANY_ID), .class = 0x030000, .class_mask = 0xffff00 },
	{ PCI_DEVICE(VENDOR_NVIDIA, PCI_ANY_ID), .class = 0x030200, .class_mask = 0xffff00 },
	{}
};
MODULE_DEVICE_TABLE(pci, devices);

static struct pci_driver driver = { .name = "nvidia", .id_table = devices, .probe = probe };

static char *public_node(const struct device *device, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return NULL;
}

static void show_all(void)
{
	struct proc_dir_entry *folder, *gpu;
	unsigned int minor;

	device_create(nodes, NULL, MKDEV(MAJOR_NVIDIA, MINOR_CONTROL), NULL, "nvidiactl");
	tree = proc_mkdir("driver/nvidia", NULL);
	proc_create_single("version", 0444, tree, show_version);
	folder = proc_mkdir("gpus", tree);
	for (minor = 0; minor < count; minor++) {
		device_create(nodes, NULL, MKDEV(MAJOR_NVIDIA, minor), NULL, "nvidia%u", minor);
		gpu = proc_mkdir(pci_name(found[minor]), folder);
		proc_create_data("information", 0444, gpu, &gpu_file, found[minor]);
	}
}

static int __init nvidia_init(void)
{
	int error;

	if (!strcmp(fault, "load")) {
		pr_err("NVRM: stand-in: told to fail\n");
		return -EIO;
	}
	error = pci_register_driver(&driver);
	if (error)
		return error;
	if (!count) {
		pr_err("NVRM: the probe routine was not called for any GPU; another driver has them\n");
		pci_unregister_driver(&driver);
		return -ENODEV;
	}
	error = register_chrdev(MAJOR_NVIDIA, "nvidia", &node_operations);
	if (error) {
		pci_unregister_driver(&driver);
		return error;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	nodes = class_create("nvidia");
#else
	nodes = class_create(THIS_MODULE, "nvidia");
#endif
	nodes->devnode = (void *)public_node;
	show_all();
	pr_info("NVRM: loading stand-in %s\n", STAND_IN_VERSION);
	if (!strcmp(fault, "xid"))
		pr_err("NVRM: Xid (PCI:%s): 79, GPU has fallen off the bus.\n", pci_name(found[0]));
	return 0;
}

static void __exit nvidia_exit(void)
{
	unsigned int minor;

	proc_remove(tree);
	for (minor = 0; minor < count; minor++)
		device_destroy(nodes, MKDEV(MAJOR_NVIDIA, minor));
	device_destroy(nodes, MKDEV(MAJOR_NVIDIA, MINOR_CONTROL));
	class_destroy(nodes);
	unregister_chrdev(MAJOR_NVIDIA, "nvidia");
	pci_unregister_driver(&driver);
}

module_init(nvidia_init);
module_exit(nvidia_exit);
MODULE_DESCRIPTION("A stand-in for NVIDIA's kernel module");
MODULE_VERSION(STAND_IN_VERSION);
MODULE_LICENSE("GPL");
