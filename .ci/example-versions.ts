// Gives the projects in `examples/` the versions that `changeset version` has just given to the packages.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const versions = globSync('packages/*/package.json', { cwd: ROOT }).map((path) => {
  const { name, version } = JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
  return { name, version }
})

for (const path of globSync('examples/*/package.json', { cwd: ROOT })) {
  const file = join(ROOT, path)
  // As text, because the formatter has its own opinion of JSON.
  const text = versions.reduce(
    (before, { name, version }) =>
      before.replaceAll(new RegExp(`(?<="${name}": ")[^"]+`, 'g'), version),
    readFileSync(file, 'utf8'),
  )
  writeFileSync(file, text)
}
