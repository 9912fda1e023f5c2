// Changes of each package, for the page "What changed".
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './pages.ts'

/** The place in a page for the changes. */
export const CHANGES_MARK = '<!-- changes -->'

/** Changes since the last release, from `.changeset`, and then the changelogs. */
export function changes(): string {
  return [...unreleased(), ...released()].join('\n\n')
}

function unreleased(): readonly string[] {
  const folder = join(ROOT, '.changeset')
  const notes = readdirSync(folder)
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .toSorted()
    .map((name) => noteOf(readFileSync(join(folder, name), 'utf8')))
  return notes.length === 0 ? [] : ['## Next release', ...notes]
}

/** A changeset as a section that names its packages. */
function noteOf(text: string): string {
  const [, head = '', body = ''] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(text) ?? []
  const packages = [...head.matchAll(/^['"]?([^'":]+)['"]?:/gm)].map(([, name]) => `\`${name}\``)
  return `### ${packages.join(', ')}\n\n${body.trim()}`
}

/** The changelogs that releases have written, one level deeper. */
function released(): readonly string[] {
  return readdirSync(join(ROOT, 'packages'))
    .map((name) => join(ROOT, 'packages', name, 'CHANGELOG.md'))
    .filter((path) => existsSync(path))
    .map((path) => readFileSync(path, 'utf8').replaceAll(/^(?=#{1,5} )/gm, '#'))
}
