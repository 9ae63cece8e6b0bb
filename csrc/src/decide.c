/* decide.c - confidence rules and sampling: depth is decided on the T = 1 full distribution before anything is drawn. */
#include "engine.h"
#include <math.h>

cyb_status cyb_policy_check(const cyb_engine *engine, const cyb_policy *policy) {
  if (policy->inherit < CYB_INHERIT_BACKFILL || policy->inherit > CYB_INHERIT_ZEROS)
    return cyb_fail(CYB_INVALID_ARGUMENT, "inheritance policy %d is not known", policy->inherit);
  if (policy->rule < CYB_RULE_TOP || policy->rule > CYB_RULE_GAIN)
    return cyb_fail(CYB_INVALID_ARGUMENT, "confidence rule %d is not known", policy->rule);
  if (policy->rule == CYB_RULE_GAIN && !engine->model.gain_weights)
    return cyb_fail(CYB_UNSUPPORTED, "this model stores no gain rule; use top or margin");
  if (policy->depth_min < 1 || policy->depth_min > policy->depth_max || policy->depth_max > engine->model.levels)
    return cyb_fail(CYB_INVALID_ARGUMENT, "depth must lie within 1..%u, not %u..%u", engine->model.levels, policy->depth_min,
                    policy->depth_max);
  if (!(policy->temperature >= 0) || isinf(policy->temperature))
    return cyb_fail(CYB_INVALID_ARGUMENT, "the temperature must be a finite number of at least 0");
  for (uint32_t k = 0; k + 1 < engine->model.levels; k++)
    if (isnan(policy->threshold[k]))
      return cyb_fail(CYB_INVALID_ARGUMENT, "threshold %u is not a number", k + 1);
  return CYB_OK;
}

void cyb_job_features(cyb_job *job, uint32_t k) {
  const cyb_best *best = &job->best;
  float mass = 0, entropy = 0, first = 0, second = 0;
  for (uint32_t i = 0; i < best->n; i++) {
    float p = cyb_exp(best->logit[i] - job->maximum) / job->sum;
    if (i == 0)
      first = p;
    if (i == 1)
      second = p;
    mass += p;
    if (p > 0)
      entropy -= p * cyb_log(p);
  }
  float rest = mass < 1.0f ? 1.0f - mass : 0.0f;
  if (rest > 0)
    entropy -= rest * cyb_log(rest);
  job->top[k - 1] = first;
  float *f = job->features[k - 1];
  f[0] = 1.0f;
  f[1] = first > 0 ? cyb_log(first) : -104.0f;
  f[2] = first;
  f[3] = first - second;
  f[4] = entropy;
  f[5] = mass;
}

int cyb_policy_answers(const cyb_engine *engine, const cyb_job *job, uint32_t k) {
  const cyb_policy *policy = job->policy;
  float threshold = policy->threshold[k - 1];
  const float *f = job->features[k - 1];
  switch (policy->rule) {
  case CYB_RULE_TOP:
    return f[2] > threshold;
  case CYB_RULE_MARGIN:
    return f[3] > threshold;
  default: {
    const float *w = engine->model.gain_weights + (size_t)(k - 1) * CYB_GAIN_FEATURES;
    float gain = engine->model.gain_bias[(size_t)(k - 1) * engine->model.vocabulary + job->row.token];
    for (int i = 0; i < CYB_GAIN_FEATURES; i++)
      gain = fmaf(w[i], f[i], gain);
    return gain <= threshold;
  }
  }
}

uint32_t cyb_sample(const cyb_job *job, float temperature, float unit, float *probability) {
  const cyb_best *best = &job->best;
  uint32_t chosen = 0;
  if (temperature > 0) {
    float inverse = 1.0f / temperature, total = 0, upto = 0;
    for (uint32_t i = 0; i < best->n; i++)
      total += cyb_exp((best->logit[i] - best->logit[0]) * inverse);
    for (chosen = 0; chosen + 1 < best->n; chosen++) {
      upto += cyb_exp((best->logit[chosen] - best->logit[0]) * inverse);
      if (unit * total < upto)
        break;
    }
  }
  *probability = cyb_exp(best->logit[chosen] - job->maximum) / job->sum;
  return best->id[chosen];
}
