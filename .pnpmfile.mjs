// What `pnpm pack` and `pnpm publish` write into a package.json: the root's package.json says once where the project lives.
import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

const ROOT = import.meta.dirname
const { author, bugs, keywords, repository } = JSON.parse(
  readFileSync(join(ROOT, 'package.json'), 'utf8'),
)

/** Adds the addresses of the project, and leaves out what only its workspace needs. */
function beforePacking(manifest, folder) {
  const { devDependencies: _workspace, scripts: _ours, ...published } = manifest
  const directory = relative(ROOT, folder).replaceAll('\\', '/')
  return {
    ...published,
    keywords: [...keywords, ...(published.keywords ?? [])],
    author,
    homepage: `${repository.url}/tree/main/${directory}#readme`,
    repository: { type: repository.type, url: `git+${repository.url}.git`, directory },
    bugs,
  }
}

export const hooks = { beforePacking }
