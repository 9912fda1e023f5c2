import type { ClientKind } from './client-kind.ts'
import { adapters } from './clients/adapters.ts'
import { ourClient } from './clients/our-client.ts'
import { ourTools } from './clients/our-tools.ts'
import { sdkV1 } from './clients/sdk-v1.ts'
import { sdkV2 } from './clients/sdk-v2.ts'

/** Everybody who meets the gateway as a library. */
export const KINDS: readonly ClientKind[] = [sdkV1, ...sdkV2, ...ourClient, adapters, ourTools]
