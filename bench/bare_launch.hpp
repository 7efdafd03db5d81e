#pragma once
// What the CUDA runtime itself takes, for launch_bench. Each gives a CUDA error number, 0 for none.

namespace baracuda::bench {

int bare_kernel(void* stream);                         // no parameters, nothing to do
int bare_kernel_of_struct(void* stream);               // 512 bytes of parameters, as a plan's kernel has
int bare_cluster(void* stream);                        // a cluster of two blocks
int bare_fill(void* stream, void* to);                 // 4 bytes
int bare_copy(void* stream, void* to, const void* from);
int get_device();
int set_shared_bytes();                                // the attribute of a kernel with more than 48 KiB of shared memory

}  // namespace baracuda::bench
