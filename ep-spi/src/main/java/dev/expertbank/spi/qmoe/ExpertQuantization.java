package dev.expertbank.spi.qmoe;

/**
 * How the weights that a tensor belongs to are quantised.
 *
 * @param bits of one weight
 * @param blockSize weights along K that share a scale; K itself when a row has a single scale
 * @param blocksPerRow scales of one row
 */
public record ExpertQuantization(int bits, long blockSize, long blocksPerRow) {}
