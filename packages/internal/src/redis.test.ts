import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { RedisOperations } from './redis.ts'

afterEach(() => void vi.restoreAllMocks())

interface Server {
  readonly operations: RedisOperations
  readonly received: string[]
  mood: 'answers' | 'hangs' | 'fails'
  now: number
}

function newServer(): Server {
  const received: string[] = []
  const client = {
    sendCommand: async (command: readonly (string | Buffer)[]): Promise<unknown> => {
      received.push(String(command[0]))
      if (server.mood === 'fails') throw new Error('Connection lost')
      return server.mood === 'hangs' ? new Promise(() => {}) : 'OK'
    },
  }
  const operations = new RedisOperations(client, 5, 1000)
  const server: Server = { operations, received, mood: 'answers', now: 1 }
  vi.spyOn(performance, 'now').mockImplementation(() => server.now)
  return server
}

const timeout = expect.objectContaining({ name: 'RedisError', code: 'TIMEOUT' })

function send({ operations }: Server, command: string): Promise<unknown> {
  return operations.operate((operation) => operation.send([command]))
}

test('rejects operations at once after one that timed out', async () => {
  const server = newServer()
  server.mood = 'hangs'
  await expect(send(server, 'GET')).rejects.toEqual(timeout)
  for (let n = 0; n < 20; n++) await expect(send(server, 'GET')).rejects.toEqual(timeout)
  expect(server.received).toEqual(['GET'])
})

test('tries a single operation after the pause, and all when it is answered', async () => {
  const server = newServer()
  server.mood = 'hangs'
  await expect(send(server, 'GET')).rejects.toEqual(timeout)
  server.now += 1000
  const tried = send(server, 'TRY')
  await expect(send(server, 'GET')).rejects.toEqual(timeout)
  await expect(tried).rejects.toEqual(timeout)
  await expect(send(server, 'GET')).rejects.toEqual(timeout)
  expect(server.received).toEqual(['GET', 'TRY'])
  server.now += 1000
  server.mood = 'answers'
  await expect(send(server, 'TRY')).resolves.toBe('OK')
  await expect(send(server, 'SET')).resolves.toBe('OK')
})

test('tries each operation while Redis fails at once', async () => {
  const server = newServer()
  server.mood = 'hangs'
  await expect(send(server, 'GET')).rejects.toEqual(timeout)
  server.now += 1000
  server.mood = 'fails'
  await expect(send(server, 'TRY')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  server.mood = 'answers'
  await expect(send(server, 'GET')).resolves.toBe('OK')
})

test('probes also during the pause, and ends it when Redis answers', async () => {
  const server = newServer()
  server.mood = 'hangs'
  await expect(send(server, 'GET')).rejects.toEqual(timeout)
  server.mood = 'answers'
  await server.operations.probe(['PING'])
  await expect(send(server, 'GET')).resolves.toBe('OK')
})

test.each([
  ['NOAUTH Authentication required.', 'DENIED'],
  ['WRONGPASS invalid username-password pair or user is disabled.', 'DENIED'],
  ["NOPERM User agent has no permissions to run the 'get' command", 'DENIED'],
  ['ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed', 'FULL'],
  ['LOADING Redis is loading the dataset in memory', 'UNAVAILABLE'],
])('reports the reply "%s" as %s', async (reply, code) => {
  const operations = new RedisOperations({ sendCommand: () => Promise.reject(new Error(reply)) }, 5)
  const asked = operations.operate(({ send: ask }) => ask(['GET', 'key']))
  await expect(asked).rejects.toMatchObject({ name: 'RedisError', code })
})

test.each([
  [new Error('connect ECONNREFUSED 127.0.0.1:6379'), 'connect ECONNREFUSED 127.0.0.1:6379'],
  // Node rejects with an AggregateError if a host name has several addresses.
  [Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  [new Error(''), 'Error'],
])('names the reason of a failure: %s', async (thrown, reason) => {
  const operations = new RedisOperations({ sendCommand: () => Promise.reject(thrown) }, 60_000)
  await expect(operations.operate(({ send: ask }) => ask(['GET', 'key']))).rejects.toMatchObject({
    message: `Redis at the given client cannot be used: ${reason}`,
    cause: thrown,
  })
})

test('reads an answer that came while the process was busy for longer than the limit', async () => {
  const echo = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1')
  await once(echo, 'listening')
  const address = echo.address()
  const socket = connect(typeof address === 'object' ? (address?.port ?? 0) : 0, '127.0.0.1')
  await once(socket, 'connect')
  const client = {
    sendCommand: async (): Promise<unknown> => {
      const answer = once(socket, 'data')
      socket.write('answer', () => {
        const end = performance.now() + 200
        while (performance.now() < end);
      })
      return String((await answer)[0])
    },
  }
  const operations = new RedisOperations(client, 80)
  expect(await operations.operate(({ send: ask }) => ask(['GET']))).toBe('answer')
  socket.destroy()
  echo.close()
})
