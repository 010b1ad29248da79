// Nothing of this header is needed to call c10d's process groups; see context.h.
#pragma once
