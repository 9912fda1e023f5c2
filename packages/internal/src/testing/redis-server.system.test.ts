import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test, vi } from 'vitest'
import { startOwnRedis } from './own-redis.ts'
import { startRedisServer } from './redis-server.ts'

const redis = await startRedisServer()
await redis?.[Symbol.asyncDispose]()

async function ask(url: string, command: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.end(`${command}\r\n`)
  const [answer] = await once(socket.setEncoding('utf8'), 'data')
  return answer
}

test.runIf(redis)(
  'accepts connections, loses all data in a crash, and keeps its port',
  async () => {
    await using server = await startOwnRedis()
    const { url, pid } = server
    expect(await ask(url, 'SET a 1')).toBe('+OK\r\n')
    await server.stop()
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    await expect(ask(url, 'GET a')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    await server.start()
    expect(server.url).toBe(url)
    expect(await ask(url, 'GET a')).toBe('$-1\r\n')
  },
)

test.runIf(redis)(
  'keeps its data over a stop and a crash if it writes them to a file',
  async () => {
    await using server = await startOwnRedis('--appendonly', 'yes', '--appendfsync', 'always')
    expect(await ask(server.url, 'SET a 1')).toBe('+OK\r\n')
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await server.stop(signal)
      await server.start()
      expect(await ask(server.url, 'GET a')).toBe('$1\r\n1\r\n')
    }
  },
)

test.runIf(redis)('ends a paused server when it is disposed of', async () => {
  let pid = 0
  {
    await using server = await startRedisServer()
    pid = server?.pid ?? 0
    server?.pause()
  }
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
})

test.runIf(redis)('protects the process that ends a paused server from Ctrl-C', async () => {
  await using server = await startRedisServer()
  const groupOf = (pid: number | undefined): string =>
    execFileSync('ps', ['-o', 'pgid=', '-p', String(pid)], { encoding: 'utf8' }).trim()
  expect(groupOf(server?.pid)).not.toBe(groupOf(process.pid))
})

test.runIf(redis)('rejects an unknown setting with the output of Redis', async () => {
  const starting = startRedisServer({ args: ['--no-such-setting', '1'] })
  await expect(starting).rejects.toThrow(/did not start[^]*no-such-setting/)
})

test('leaves tests out with a message without Redis, or fails if Redis is required', async () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  expect(await startRedisServer({ env: { PATH: '/nowhere' } })).toBeUndefined()
  expect(written).toHaveBeenCalledWith(expect.stringContaining('left out'))
  written.mockRestore()
  const required = startRedisServer({ env: { PATH: '/nowhere', REQUIRE_REDIS: '1' } })
  await expect(required).rejects.toThrow('REQUIRE_REDIS')
})
