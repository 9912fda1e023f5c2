import { fileURLToPath } from 'node:url'

import { expect, test } from 'vitest'

import { settingsReference } from './settings-reference.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('the page of all settings is generated from their schema', async () => {
  const page = here('../../../docs/reference/settings.md')
  await expect(await settingsReference()).toMatchFileSnapshot(page)
})
