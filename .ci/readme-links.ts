// Makes the relative links of a package's README absolute while it is packed: in a tarball they would be dead.
// Runs in the folder of the package before `pnpm pack`, and with `--restore` after it.
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const README = 'README.md'
/** Holds the README of the repository. It stays here if packing fails, and the next run takes it. */
const KEPT = '.README.before-packing.md'

if (process.argv.includes('--restore')) {
  if (existsSync(KEPT)) renameSync(KEPT, README)
} else {
  if (!existsSync(KEPT)) writeFileSync(KEPT, readFileSync(README))
  writeFileSync(README, withAbsoluteLinks(readFileSync(KEPT, 'utf8')))
}

function withAbsoluteLinks(text: string): string {
  const { repository } = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8'))
  return text.replace(/(?<=\]\()(?![a-z]+:|#)([^)#\s]+)/g, (path) => {
    const target = resolve(path)
    const kind = statSync(target).isDirectory() ? 'tree' : 'blob' // throws if the link is dead
    const place = relative(ROOT, target).replaceAll('\\', '/')
    return `${repository.url}/${kind}/main/${place}`
  })
}
