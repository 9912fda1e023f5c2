import { setting, type StoreSection } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { bullmqEngine } from './bullmq-engine.ts'
import { redisStore, type RedisStoreOptions } from './redis-store.ts'

interface RedisFileSettings extends Pick<RedisStoreOptions, 'url' | 'prefix'> {
  /** Executes tasks in any process with the same Redis and prefix. If one dies, another one continues its tasks. */
  readonly tasks: boolean
  /** Number of tasks that one process executes at the same time. */
  readonly concurrency: number
}

const schema = z.strictObject({
  url: setting.secret(
    z.url({ protocol: /^rediss?$/, error: 'redis://host:port, or rediss:// for TLS' }),
  ),
  prefix: setting.text.default('mcp-gateway'),
  tasks: setting.flag.default(false),
  concurrency: setting.whole(1).default(10),
})

/** A store with `type: redis` in the configuration file of `mcp-gateway`. */
export const fileSection: StoreSection = {
  schema,
  create: (settings, { onWarning }) => {
    const { url, prefix }: RedisFileSettings = schema.parse(settings)
    return redisStore({
      url,
      prefix,
      onError: (error) => onWarning('The store failed in the background', error),
      onWarning: (error) => onWarning('Redis is down: each process counts rates for itself', error),
    })
  },
  createEngine: (settings, { onWarning }) => {
    const { url, prefix, tasks, concurrency }: RedisFileSettings = schema.parse(settings)
    if (!tasks) return undefined
    return bullmqEngine({
      url,
      prefix,
      concurrency,
      onWarning: (error) => onWarning('The engine of tasks lost Redis for a while', error),
    })
  },
}
