/* The one function of bcryptprimitives.dll that programs of Rust import, for a Wine that lacks the
   DLL: there a program ends with code 53 before it has begun. */
#include <stddef.h>

unsigned char __stdcall SystemFunction036(void *, unsigned long); /* RtlGenRandom */

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *bytes, size_t len)
{
    while (len) {
        unsigned long part = len > 65536 ? 65536 : (unsigned long)len;
        if (!SystemFunction036(bytes, part))
            return 0;
        bytes += part;
        len -= part;
    }
    return 1;
}
