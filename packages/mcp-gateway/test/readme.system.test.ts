import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('the example about files is in its page, and works', async () => {
  const example = await readFile(here('example-files.ts'), 'utf8')
  expect(await readFile(here('../../../docs/gateway/files.md'), 'utf8')).toContain(
    `\`\`\`ts\n${example}\`\`\``,
  )
  const args = ['--conditions=mcp-source', here('example-files.ts')]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  expect(stdout).toMatch(
    /^By wishes\.txt \(11 bytes\)\.\nartifact:\/\/\w{26}\/circles\.svg\?version=1\n$/,
  )
})
