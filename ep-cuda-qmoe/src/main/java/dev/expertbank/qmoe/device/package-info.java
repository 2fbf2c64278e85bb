/** What computes QMoE over an address table. Nothing outside knows which device it has. */
@NullMarked
package dev.expertbank.qmoe.device;

import org.jspecify.annotations.NullMarked;
