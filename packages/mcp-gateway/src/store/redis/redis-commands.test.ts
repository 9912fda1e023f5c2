import { expect, test } from 'vitest'
import type { GatewayError } from '../../errors.ts'
import { RedisCommands } from './redis-commands.ts'
import type { RedisLink } from './redis-connection.ts'

type Mood = 'answers' | 'hangs' | 'fails'

interface World {
  readonly commands: RedisCommands
  readonly sent: string[]
  mood: Mood
  now: number
}

function world(): World {
  const sent: string[] = []
  const never = new Promise<never>(() => undefined)
  const link: RedisLink = {
    name: 'of a test',
    send: (command) => {
      sent.push(String(command[0]))
      if (w.mood === 'hangs') return never
      return w.mood === 'fails' ? Promise.reject(new Error('gone')) : Promise.resolve('OK')
    },
    subscriber: () => never,
    reader: () => never,
    giveUp: () => undefined,
    close: async () => undefined,
  }
  const commands = new RedisCommands(link, { timeoutMs: 5, now: () => w.now })
  const w: World = { commands, sent, mood: 'answers', now: 0 }
  return w
}

const unavailable = expect.objectContaining({ code: 'UNAVAILABLE' }) as GatewayError

test('after a command that was not answered in time, others do not wait for the same', async () => {
  const w = world()
  w.mood = 'hangs'
  await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  for (let n = 0; n < 20; n++) await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  expect(w.sent).toHaveLength(1)
})

test('after a pause one command asks, and all go on when it is answered', async () => {
  const w = world()
  w.mood = 'hangs'
  await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  w.now = 1000
  const asking = w.commands.send(['ASK'])
  await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  await expect(asking).rejects.toEqual(unavailable)
  await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  expect(w.sent).toEqual(['GET', 'ASK'])
  w.now = 2000
  w.mood = 'answers'
  await expect(w.commands.send(['ASK'])).resolves.toBe('OK')
  await expect(w.commands.send(['SET'])).resolves.toBe('OK')
})

test('a Redis that fails at once is asked each time', async () => {
  const w = world()
  w.mood = 'hangs'
  await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  w.now = 1000
  w.mood = 'fails'
  await expect(w.commands.send(['ASK'])).rejects.toEqual(unavailable)
  w.mood = 'answers'
  await expect(w.commands.send(['GET'])).resolves.toBe('OK')
})

test('whether it is ready is asked in any case, and heals', async () => {
  const w = world()
  w.mood = 'hangs'
  await expect(w.commands.send(['GET'])).rejects.toEqual(unavailable)
  w.mood = 'answers'
  await expect(w.commands.ping()).resolves.toBe('OK')
  await expect(w.commands.send(['GET'])).resolves.toBe('OK')
})
