/* Which experts compute a token, and with which weight. */
#ifndef EXPERTBANK_ROUTING_H
#define EXPERTBANK_ROUTING_H

#include "run_state.h"

/*
 * Fills route_expert, route_weight and the routes by expert of `state`.
 *
 * Experts are chosen by descending logit; equal logits by descending index (EB_ROUTING_ORT_CPU) or ascending index
 * (EB_ROUTING_ORT_CUDA). A NaN logit ranks below -inf and has probability 0; +inf logits share probability 1.
 * A route is dropped where its weight is not above 1e-8 (EB_ROUTING_ORT_CPU) or not above 0 (EB_ROUTING_ORT_CUDA),
 * which covers NaN weights; its place in route_expert is -1 and in route_weight 0.
 */
void route_tokens(const eb_qmoe_run *run, struct run_state *state);

#endif
