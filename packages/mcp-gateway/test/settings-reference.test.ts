import { fileURLToPath } from 'node:url'

import { expect, test } from 'vitest'

import { start } from './command-line.ts'
import { settingsReference } from './settings-reference.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('the page of all settings is generated from their schema', async () => {
  const page = here('../../../docs/reference/settings.md')
  await expect(await settingsReference()).toMatchFileSnapshot(page)
})

test('the example of the package passes the check, and gives one tool', async () => {
  const { code, text } = start(['check', here('../examples/gateway.yaml')])
  expect([await code, text('stderr')]).toEqual([0, ''])
  expect(text('stdout')).toMatch(/\n1 tool\n {2}support {2}Order support\n$/)
})
