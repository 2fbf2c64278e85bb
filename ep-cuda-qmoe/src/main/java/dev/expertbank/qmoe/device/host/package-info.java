/** The CPU as a device, through the C kernels of the {@code kernels} module. */
@NullMarked
package dev.expertbank.qmoe.device.host;

import org.jspecify.annotations.NullMarked;
