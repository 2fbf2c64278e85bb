/* com.microsoft::QMoE in double precision, straight from its definition; shares no code with the kernels. */
#ifndef EXPERTBANK_REFERENCE_H
#define EXPERTBANK_REFERENCE_H

#include "../host/qmoe_host.h"

/* Element `index` of a tensor of an ONNX type, at any alignment. */
double reference_element(int32_t type, const void *tensor, int64_t index);

/* The nearest value of the type, ties to even, as its bits in the low bytes. */
uint32_t reference_encode(int32_t type, double value);

/* One token's routes in the order of choice: expert or -1 when dropped, and weight or 0. */
void reference_route(const eb_qmoe_run *run, int64_t token, int32_t *experts, double *weights);

/* output[tokens, hidden] of a run; reads the rows of routed experts only. */
void reference_run(const eb_qmoe_run *run, double *output);

#endif
