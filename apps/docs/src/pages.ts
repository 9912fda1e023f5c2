// Which pages the site has, in which order, and under which addresses. The list is docs/README.md.
import { globSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The root of the repository, which is also the source folder of the site. */
export const ROOT: string = fileURLToPath(new URL('../../..', import.meta.url))

/** The list of pages. */
export const INDEX = 'docs/README.md'

/** The page of the error codes. */
export const ERRORS = 'docs/reference/errors.md'

/** Folder of the pages that typedoc writes. */
export const API = 'apps/docs/api'

export interface Group {
  readonly title: string
  readonly entries: readonly (Entry | Group)[]
}

export interface Entry {
  /** Path of the file in the repository, or of a folder that the site does not show. */
  readonly path: string
  /** Text of the link in the index. */
  readonly text: string
}

/**
 * Reads the groups of an index: headings of level 2, with headings of level 3 inside, and list items that begin
 * with a link. Everything else is text for readers.
 */
export function readIndex(text: string): readonly Group[] {
  const found: { title: string; entries: (Entry | Group)[] }[] = []
  let entries: (Entry | Group)[] = []
  for (const line of text.split('\n')) {
    const [, marks, title] = /^(##|###) (.*)$/.exec(line) ?? []
    const [, label, path] = /^- \[(.*?)\]\(([^)#]+)\)/.exec(line) ?? []
    if (title !== undefined) {
      const parent = marks === '##' ? found : found.at(-1)?.entries
      entries = []
      parent?.push({ title, entries })
    } else if (label !== undefined && path !== undefined) {
      entries.push({ text: label, path: posix.join(posix.dirname(INDEX), path) })
    }
  }
  return found.filter((group) => group.entries.length > 0)
}

/** Groups of the repository's index. */
export function groups(): readonly Group[] {
  return readIndex(readFileSync(join(ROOT, INDEX), 'utf8'))
}

/** All entries below these groups, in their order. */
export function entriesOf(list: readonly (Entry | Group)[]): readonly Entry[] {
  return list.flatMap((item) => ('entries' in item ? entriesOf(item.entries) : [item]))
}

/** Files that must stand in the index once each: pages in docs/, and the documents of published packages. */
export function expectedPages(): readonly string[] {
  const options = { cwd: ROOT, exclude: (name: string) => name === 'node_modules' }
  const pages = globSync('docs/**/*.md', options).filter((path) => path !== INDEX)
  const documents = globSync('packages/*/*.md', options).filter(
    (path) => !path.endsWith('/CHANGELOG.md') && !isPrivate(posix.dirname(path)),
  )
  return [...pages, ...documents].toSorted()
}

function isPrivate(folder: string): boolean {
  const manifest: unknown = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'))
  return typeof manifest === 'object' && manifest !== null && 'private' in manifest
}

/** Files of the pages that the site has, besides those of typedoc. */
export function sitePages(): readonly string[] {
  const listed = entriesOf(groups()).map(({ path }) => path)
  return ['README.md', INDEX, ...listed.filter((path) => path.endsWith('.md'))]
}

/** Path of a page on the site, with `.md`, from the path of its file. */
export function sitePath(file: string): string {
  if (file === 'README.md') return 'index.md'
  if (file === INDEX) return 'contents.md'
  if (file === ERRORS) return 'e.md' // short, because each error ends with it: error-link.ts
  if (file.startsWith(`${API}/`)) return `api/${file.slice(API.length + 1)}`
  const page = file.startsWith('docs/') ? file.slice('docs/'.length) : file
  return page.endsWith('/README.md') ? page.replace(/README\.md$/, 'index.md') : page.toLowerCase()
}

/** Address of a page on the site, without the base. */
export function siteAddress(file: string): string {
  return `/${sitePath(file).replace(/(?<=^|\/)index\.md$|\.md$/, '')}`
}

/** Heading of level 1 of a page, as plain text. */
export function titleOf(file: string): string {
  const [, title] = /^# (.*)$/m.exec(readFileSync(join(ROOT, file), 'utf8')) ?? []
  if (title === undefined) throw new Error(`${file} has no heading of level 1`)
  return title.replaceAll('`', '')
}
