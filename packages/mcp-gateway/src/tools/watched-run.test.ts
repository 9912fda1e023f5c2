import { describe, expect, test } from 'vitest'
import { settled } from '../../test/manual-clock.ts'
import {
  agentOf,
  callWith,
  FakeSource,
  runOf,
  working,
  worldOf,
} from '../../test/registry-world.ts'
import type { RegistryWorld } from '../../test/registry-world.ts'
import { GatewayError } from '../errors.ts'
import { RunFailure } from '../agents/agent.ts'
import type { AgentUpdate } from '../agents/agent.ts'

type Script = FakeSource['script']

const failingWith = (error: unknown): Script =>
  async function* fail(): AsyncGenerator<AgentUpdate> {
    throw error
  }
const failing = failingWith(new Error('down'))

async function startedWith(script: Script): Promise<{ source: FakeSource; world: RegistryWorld }> {
  const source = new FakeSource([agentOf('a')])
  source.script = script
  const world = worldOf([source])
  await world.registry.start()
  return { source, world }
}

const healthOf = ({ registry }: RegistryWorld): unknown => registry.agents()[0]?.health

test('an agent is degraded after five failed runs in a row, and still called until one succeeds', async () => {
  const { source, world } = await startedWith(failing)
  for (let run = 0; run < 4; run++) expect(await runOf(world.registry)).toBe('down')
  expect(healthOf(world)).toBe('healthy')
  source.script = working
  await runOf(world.registry)
  source.script = failing
  for (let run = 0; run < 4; run++) await runOf(world.registry)
  expect(healthOf(world)).toBe('healthy')
  await runOf(world.registry)
  expect(world.registry.status().agents).toMatchObject([
    { agent: { health: 'degraded' }, reason: 'its last runs failed' },
  ])
  expect(await runOf(world.registry)).toBe('down')
  source.script = working
  expect(await runOf(world.registry)).toBe('done')
  expect(healthOf(world)).toBe('healthy')
})

/** Ends when its call is aborted. */
const endless: Script = async function* slow({ signal }) {
  await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
  yield { type: 'done' }
}

describe.each<[string, Script, unknown, string]>([
  ['without a result', async function* silent() {}, undefined, 'degraded'],
  ['beyond a time limit', endless, new RunFailure('timeout', 'Too long'), 'degraded'],
  ['that their callers cancelled', endless, new RunFailure('cancelled', 'Stop'), 'healthy'],
  ['of a caller who has left', endless, new Error('left'), 'healthy'],
  [
    'with wrong arguments',
    failingWith(new RunFailure('invalid_arguments', '')),
    undefined,
    'healthy',
  ],
  ['without room for files', failingWith(new GatewayError('QUOTA', '')), undefined, 'healthy'],
  ['with a request that a server refuses', failingWith({ status: 422 }), undefined, 'healthy'],
])('after runs %s', (...each) => {
  const [, script, abortReason, health] = each
  test(`an agent is ${health}`, async () => {
    const { world } = await startedWith(script)
    for (let run = 0; run < 5; run++) {
      const caller = new AbortController()
      const ended = runOf(world.registry, callWith(caller.signal))
      await settled()
      if (abortReason !== undefined) caller.abort(abortReason)
      await ended
    }
    expect(healthOf(world)).toBe(health)
  })
})

test('a run continues when its agent leaves, and new runs do not find it', async () => {
  let finish: () => void = () => undefined
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const { source, world } = await startedWith(async function* slow() {
    yield { type: 'text', text: 'one moment' }
    await finished
    yield { type: 'done' }
  })
  const run = runOf(world.registry)
  await settled()
  source.listener?.gone('a')
  await world.clock.advance(250)
  expect(await runOf(world.registry)).toBe('gone')
  finish()
  expect(await run).toBe('done')
})

test('a failed run does not count for another agent that gets the id of its agent', async () => {
  let fail: () => void = () => undefined
  const failed = new Promise<void>((resolve) => (fail = resolve))
  const { source, world } = await startedWith(async function* slow() {
    await failed
    throw new Error('down')
  })
  const runs = Array.from({ length: 5 }, () => runOf(world.registry))
  await settled()
  source.listener?.gone('a')
  source.listener?.found(agentOf('a', { description: 'Another one' }))
  fail()
  expect(await Promise.all(runs)).toEqual(Array<string>(5).fill('down'))
  expect(healthOf(world)).toBe('healthy')
})

test('an agent can be marked as degraded until one run succeeds', async () => {
  const { world } = await startedWith(working)
  world.registry.degrade('a', 'it did not stop')
  expect(world.registry.status().agents).toMatchObject([
    { agent: { health: 'degraded' }, reason: 'it did not stop' },
  ])
  await runOf(world.registry)
  expect(healthOf(world)).toBe('healthy')
})
