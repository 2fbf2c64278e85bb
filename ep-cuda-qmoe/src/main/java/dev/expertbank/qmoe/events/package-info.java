/** Flight recorder events of residency. Written only while a recording wants them. */
@NullMarked
package dev.expertbank.qmoe.events;

import org.jspecify.annotations.NullMarked;
