import { expect, test } from 'vitest'
import { violationsOf } from '../src/checks.ts'
import { runChaos } from '../src/run.ts'

test('catches a client that repeats calls blindly and leaves its sessions', async () => {
  const record = await runChaos({
    seed: 1,
    era: 'legacy',
    minutes: 1 / 30,
    concurrency: 12,
    agentEntry: new URL('unsafe-process.ts', import.meta.url),
    serversOnly: true,
  })
  const broken = new Set(violationsOf(record).map(({ check }) => check))
  expect([...broken]).toEqual(
    expect.arrayContaining(['executions match the outcome', 'sessions are ended']),
  )
  expect(broken).not.toContain('each call settles once')
})
