/** Where every expert's bytes are: mapped weight files and the address table of each layer. */
@NullMarked
package dev.expertbank.qmoe.bank;

import org.jspecify.annotations.NullMarked;
