import { inspect } from 'node:util'
import { seededRandom } from '@x/mcp-testing'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { GATEWAY, startUserWorld, type UserWorld } from './user-world.ts'

beforeEach(() => {
  // `oidc-provider` says on the console what a server in production has to configure.
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  vi.spyOn(console, 'info').mockImplementation(() => {})
})
afterEach(() => void vi.restoreAllMocks())

/** Everything that was stored, logged or thrown, as text. */
function leftBy({ logged, saver }: UserWorld, ...more: unknown[]): string {
  const checkpoints = JSON.stringify([saver.storage, saver.writes], (_key, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : value,
  )
  return (
    checkpoints + inspect([logged, more], { depth: 20, showHidden: true, maxStringLength: null })
  )
}

function expectNoToken(world: UserWorld, ...more: unknown[]): void {
  const left = leftBy(world, ...more)
  expect(world.login.tokens.length).toBeGreaterThan(0)
  for (const token of world.login.tokens) expect(left.includes(token)).toBe(false)
  expect(left).not.toContain('secret-of-gateway')
}

const textOf = (result: unknown): string => JSON.stringify(result)

test('each server sees the user, and a token for itself', async () => {
  await using world = await startUserWorld()
  const token = await world.login.signIn('ada', GATEWAY)
  const result = await world.clientOf('ada', () => token).callTool('buyer', { question: 'q1' })
  expect(textOf(result)).toContain('You are ada')
  expect(world.orders.seen).toEqual([{ sub: 'ada', aud: world.orders.url, asked: 'q1' }])
  expectNoToken(world, result)
})

test.each(['legacy', 'modern'] as const)('a resumed run has credentials (%s)', async (era) => {
  await using world = await startUserWorld({ asks: true })
  const token = await world.login.signIn('ada', GATEWAY)
  const client = world.clientOf('ada', () => token, era)
  const result = await client.callTool('buyer', { question: 'q1' })
  expect(textOf(result)).toContain('You are ada')
  expectNoToken(world, result)
})

test.each([false, true])('a queued task keeps its user (asks: %s)', async (asks) => {
  await using world = await startUserWorld({ tasks: true, asks })
  const token = await world.login.signIn('ada', GATEWAY)
  const client = world.clientOf('ada', () => token)
  const result = await client.callTool('buyer', { question: 'q1' })
  expect(textOf(result)).toContain('You are ada')
  expectNoToken(world, result)
})

test.each([false, true])(
  'says which audience failed, and why (defaults: %s)',
  async (hasDefaults) => {
    await using world = await startUserWorld({ hasDefaults })
    const { login, orders } = world
    const token = await login.signIn('ada', GATEWAY)
    const ada = world.clientOf('ada', () => token)
    const failed = async (): Promise<string> => {
      const from = world.logged.length
      const result = await ada.callTool('buyer', { question: 'q' })
      expect(result).toMatchObject({ isError: true })
      return textOf(result) + inspect(world.logged.slice(from), { depth: 20 })
    }
    login.fails = () => true
    expect(await failed()).toContain(`No token for ${orders.url}`)
    login.fails = () => false
    login.revoked.add('ada')
    const expired = await failed() // the caller can do something about it
    expect(expired).toContain('auth_required')
    expect(expired).toContain(`No token for ${orders.url}: the sign-in`)
    login.revoked.clear()
    world.aheadMs = 400_000 // the sign-in ends in 300 s
    expect(await failed()).toContain('auth_required')
    world.aheadMs = 0
    login.targets.delete(orders.url)
    expect(await failed()).toContain(`gives no tokens for ${orders.url}`)
    expect(orders.seen).toEqual([])
    expectNoToken(world)
  },
)

test('a token of another audience opens neither the gateway nor a server', async () => {
  await using world = await startUserWorld()
  const token = await world.login.signIn('ada', world.orders.url)
  const call = world.clientOf('ada', () => token).callTool('buyer', { question: 'q' })
  await expect(call).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
  expect(world.login.exchanges).toBe(0)
})

test.each([
  [1, false],
  [2, false],
  [3, true],
])(
  'keeps users apart in chaos (seed %i, defaults: %s)',
  { timeout: 300_000 },
  async (seed, hasDefaults) => {
    await using world = await startUserWorld({ hasDefaults })
    const { login, orders } = world
    const random = seededRandom(seed)
    login.fails = () => random() < 0.2
    orders.refuses = () => random() < 0.1
    const users = ['ada', 'bob', 'eve']
    const clients = users.map((user) => {
      // Each request has a new sign-in, or the same one again: both are usual.
      let token = login.signIn(user, GATEWAY, 36_000)
      return world.clientOf(user, () => {
        if (random() < 0.3) token = login.signIn(user, GATEWAY, 36_000)
        return token
      })
    })
    let answered = 0
    const failures: unknown[] = []
    for (let round = 0; round < 12; round++) {
      world.aheadMs = 280_000 * round // the tokens of the round before have ended
      await Promise.all(
        clients.map(async (client, at) => {
          const user = users[at] ?? ''
          const result = await client.callTool('buyer', { question: `${user} ${round}` })
          // By default, the model gets the failure of a call as text.
          const isText = hasDefaults && !textOf(result).includes('You are')
          if (result.isError === true || isText) return void failures.push(result)
          expect(textOf(result)).toContain(`You are ${user}`)
          answered++
        }),
      )
    }
    expect(answered + failures.length).toBe(36)
    expect(answered).toBeGreaterThan(0)
    expect(failures.length).toBeGreaterThan(0)
    for (const { asked, aud, sub } of orders.seen) {
      expect(asked.split(' ')[0]).toBe(sub)
      expect(aud).toBe(orders.url)
    }
    expect(login.exchanges).toBeGreaterThanOrEqual(answered)
    const asked = orders.seen.map((each) => each.asked)
    expect(new Set(asked).size).toBe(asked.length) // no call was executed twice
    expectNoToken(world, failures)
  },
)
