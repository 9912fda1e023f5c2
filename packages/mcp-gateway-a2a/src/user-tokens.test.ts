import { expect, test } from 'vitest'
import type { UserCredentials } from '@x/mcp-gateway'
import { startA2aAgent, urlPart } from '../test/a2a-agent.ts'
import { all, callOf, rain, started, textIn } from '../test/a2a-world.ts'

const resource = 'https://weather.example'

const of = (user: string): UserCredentials => ({
  token: async (target) => ({ accessToken: `${user} at ${target.resource}`.replaceAll(' ', '-') }),
  rejected: () => {},
})

test('calls an agent with a token of the user, and reads its card without', async () => {
  await using agent = await startA2aAgent(rain)
  await using world = await started(agent, {
    card: { resource, headers: { authorization: 'own' } },
  })
  const runs = ['ada', 'bob'].map(async (user) =>
    textIn(await all(world.source.run(callOf({ ...world, credentials: of(user) })))),
  )
  expect(await Promise.all(runs)).toEqual(['It will rain.', 'It will rain.'])
  const [card, ...calls] = agent.requests.map(({ headers }) => headers.authorization)
  expect(card).toBe('own')
  expect(new Set(calls)).toEqual(
    new Set([`Bearer ada-at-${resource}`, `Bearer bob-at-${resource}`]),
  )
  expect(calls).toHaveLength(2)
})

test('reads the files of an agent with a token of the user', async () => {
  await using agent = await startA2aAgent((turn) => {
    turn.begin()
    turn.artifact('a', [urlPart('report.txt', `${agent.url}/report.txt`, 'text/plain')])
    turn.status(3)
  })
  await using world = await started(agent, {
    card: { resource, headers: { authorization: 'own' } },
  })
  const updates = await all(world.source.run(callOf({ ...world, credentials: of('ada') })))
  const pieces: Uint8Array[] = []
  for (const update of updates) {
    if (update.type !== 'file' || !(Symbol.asyncIterator in update.file.data)) continue
    for await (const piece of update.file.data) pieces.push(piece)
  }
  expect(Buffer.concat(pieces).toString()).toBe('A report')
  const read = agent.requests.find(({ line }) => line.includes('/report.txt'))
  expect(read?.headers.authorization).toBe(`Bearer ada-at-${resource}`)
})

test('calls no agent without the user', async () => {
  await using agent = await startA2aAgent(rain)
  await using world = await started(agent, { card: { resource } })
  await expect(all(world.source.run(callOf(world)))).rejects.toMatchObject({ code: 'NO_USER' })
  expect(agent.requests).toHaveLength(1)
})
