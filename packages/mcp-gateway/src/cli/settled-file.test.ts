import { afterEach, beforeEach, expect, test } from 'vitest'

import { configFolder, type ConfigFolder } from '../../test/config-folder.ts'
import type { Clock } from '../internal/clock.ts'
import { readSettled } from './config-file.ts'

let folder: ConfigFolder

beforeEach(async () => {
  folder = await configFolder()
})

afterEach(() => folder[Symbol.asyncDispose]())

/** Time in which somebody writes these texts, one after the other. */
function writing(...texts: readonly string[]): Clock {
  const left = [...texts]
  const write = async (callback: () => void): Promise<void> => {
    const next = left.shift()
    if (next !== undefined) await folder.file('g.yaml', next)
    callback()
  }
  return {
    now: () => 0,
    after: (_ms, callback) => {
      void write(callback)
      return () => undefined
    },
  }
}

test('reads a file when it no longer changes', async () => {
  const file = await folder.file('g.yaml', '')
  const clock = writing('agents:', 'agents: { ttlMs: 5 }')
  expect(await readSettled(file, clock)).toBe('agents: { ttlMs: 5 }')
})

test('refuses an empty file, a missing file, and a file that never stops changing', async () => {
  const file = await folder.file('g.yaml', '\n')
  await expect(readSettled(file, writing())).rejects.toThrow(/g\.yaml: it is empty$/)
  const clock = writing(...Array.from({ length: 30 }, (_, n) => `a: ${n}`))
  await expect(readSettled(file, clock)).rejects.toThrow(/written all the time/)
  const missing = readSettled(`${file}.old`, writing())
  await expect(missing).rejects.toThrow(/there is no such file/)
})
