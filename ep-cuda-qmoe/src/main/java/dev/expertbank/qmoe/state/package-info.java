/** The memory of state groups on the devices. */
@NullMarked
package dev.expertbank.qmoe.state;

import org.jspecify.annotations.NullMarked;
