import { startRedisServer } from './redis-server.ts'
import type { RedisServer } from './redis-server.ts'

/** Starts a Redis of the test's own, with settings as on the command line. @throws without a `redis-server` */
export async function startOwnRedis(...args: string[]): Promise<RedisServer> {
  const server = await startRedisServer({ args })
  if (!server) throw new Error('redis-server is not on the PATH: install it, as .ci/servers does')
  return server
}

/** Sends a command to Redis directly. */
export async function askRedis(url: string, ...command: string[]): Promise<unknown> {
  const { createClient } = await import('redis') // most users of this module need no client
  const client = createClient({ url })
  await client.connect()
  try {
    return await client.sendCommand(command)
  } finally {
    client.destroy()
  }
}
