//===- BucketLimit.h - The most that one launch may move ---------*- C++ -*-===//
//
// Private to lib/Schedule.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SCHEDULE_BUCKETLIMIT_H
#define FSDP_SCHEDULE_BUCKETLIMIT_H

#include "fsdp/Schedule/ListSchedule.h"

namespace fsdp::schedule {

/// Buckets of more than `maxBytes` become several, of the same members in the same order. A member
/// that is larger is a bucket of its own.
Decisions splitLargeBuckets(const Problem &problem, Decisions decisions, int64_t maxBytes);

/// Whether a bucket of several members moves more than `maxBytes`.
bool hasLargeBucket(const Problem &problem, const Plan &plan, int64_t maxBytes);

} // namespace fsdp::schedule

#endif // FSDP_SCHEDULE_BUCKETLIMIT_H
