import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

it('names only files in ARCHITECTURE.md that exist', () => {
  const text = readFileSync(`${ROOT}/ARCHITECTURE.md`, 'utf8')
  const named = new Set([...text.matchAll(/(?<![\w.])\w[\w./-]*\.tsx?\b/g)].map(([name]) => name))
  const files = globSync('{packages,apps,.ci}/**/*.{ts,tsx}', {
    cwd: ROOT,
    exclude: (path) => path.endsWith('node_modules') || path.endsWith('dist'),
  }).map((path) => `/${path.replaceAll('\\', '/')}`)

  expect(named.size).toBeGreaterThan(50)
  expect([...named].filter((name) => !files.some((file) => file.endsWith(`/${name}`)))).toEqual([])
})
