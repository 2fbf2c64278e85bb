/** The CUDA-QMoE provider. */
module dev.expertbank.qmoe {
  requires dev.expertbank.spi;
  requires static org.jspecify;

  provides dev.expertbank.spi.ExecutionProviderFactory with
      dev.expertbank.qmoe.QMoeProviderFactory;
}
