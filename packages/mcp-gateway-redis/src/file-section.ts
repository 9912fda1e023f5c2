import { setting, type StoreSection } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { bullmqEngine } from './bullmq-engine.ts'
import { redisStore, type RedisStoreOptions } from './redis-store.ts'

interface RedisFileSettings extends Pick<RedisStoreOptions, 'url' | 'prefix'> {
  /**
   * Number of tasks that this process executes at the same time, also of other processes with the same Redis and prefix. If
   * one dies, another one continues its tasks. 0: tasks run in the process that accepted them, and calls that are always
   * tasks are continued by the next process that starts.
   */
  readonly tasks: number
}

const schema = z.strictObject({
  url: setting.secret(
    z.url({ protocol: /^rediss?$/, error: 'redis://host:port, or rediss:// for TLS' }),
  ),
  prefix: setting.text.default('mcp-gateway'),
  tasks: setting.whole(0).default(0),
})

/** A store with a `url` in the configuration file of `mcp-gateway`. */
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
    const { url, prefix, tasks }: RedisFileSettings = schema.parse(settings)
    if (tasks === 0) return undefined
    return bullmqEngine({
      url,
      prefix,
      concurrency: tasks,
      onWarning: (error) => onWarning('The engine of tasks lost Redis for a while', error),
    })
  },
}
