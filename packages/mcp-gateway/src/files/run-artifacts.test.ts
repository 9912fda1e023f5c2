import { expect, test } from 'vitest'

import { named, nobody, bytesOf, inMemory, openWorld } from '../../test/artifact-world.ts'
import { RunArtifacts } from './run-artifacts.ts'

test('files of a run for a caller without a name go to one scope, in the order of the calls', async () => {
  await using world = await openWorld(inMemory)
  const { artifacts } = world
  const signal = new AbortController().signal
  const run = new RunArtifacts({ artifacts, caller: { principal: nobody }, runId: 'r', signal })
  const written = await Promise.all([
    run.write({ name: 'f', data: bytesOf('1') }),
    run.write({ name: 'f', data: bytesOf('2'), mimeType: 'text/x;nonsense\r\n' }),
    run.write({ name: 'g', data: bytesOf('3'), mimeType: 'text/csv; charset="utf-8"' }),
  ])
  expect(new Set(written.map(({ scope }) => scope)).size).toBe(1)
  expect(written.map(({ version }) => version)).toEqual([1, 2, 1])
  expect(written.map(({ mimeType }) => mimeType)).toEqual([
    'text/plain',
    'text/plain',
    'text/csv; charset="utf-8"',
  ])
})

test('files of a run end with it, also when a source of bytes hangs', async () => {
  await using world = await openWorld(inMemory)
  const { artifacts } = world
  const ending = new AbortController()
  const data: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        ending.abort(new Error('the run is over'))
        return new Promise<never>(() => {})
      },
    }),
  }
  const { signal } = ending
  const run = new RunArtifacts({ artifacts, caller: named('a'), runId: 'r', signal })
  const writing = run.write({ name: 'f', data })
  await expect(writing).rejects.toThrow('the run is over')
  expect(await world.keptBlobs()).toEqual([])
})
