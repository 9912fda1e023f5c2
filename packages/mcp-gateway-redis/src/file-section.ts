import { setting } from '@x/mcp-gateway/adapter'
import type { StoreSection } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { redisStore } from './redis-store.ts'

const schema = z.strictObject({
  url: z.url({ protocol: /^rediss?$/, error: 'redis://host:port, or rediss:// for TLS' }),
  prefix: setting.text.default('mcp-gateway'),
})

/** A store with `type: redis` in the configuration file of `mcp-gateway`. */
export const fileSection: StoreSection = {
  schema,
  create: (settings, { onWarning }) =>
    redisStore({
      ...schema.parse(settings),
      onError: (error) => onWarning('A listener of the store failed', error),
      onWarning: (error) => onWarning('Redis is down: each process counts rates for itself', error),
    }),
}
