import { completeSettings } from '../src/gateway/settings.ts'
import type { GatewaySettings } from '../src/options.ts'

/** All settings with their defaults. */
export const DEFAULTS: GatewaySettings = completeSettings('a test', {})
