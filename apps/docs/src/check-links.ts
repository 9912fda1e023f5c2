// Checks links in the built site that VitePress does not check: anchors, files, and files of the repository.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { REPOSITORY } from './markdown.ts'
import { ROOT } from './pages.ts'

/** Returns a sentence for each broken link in the pages of a folder, which are served below `base`. */
export function checkLinks(folder: string, base: string): readonly string[] {
  const files = globSync('**/*.html', { cwd: folder }).map((file) => file.replaceAll('\\', '/'))
  const pages = new Map(files.map((file) => [file, readFileSync(join(folder, file), 'utf8')]))
  const anchors = new Map(Array.from(pages, ([file, html]) => [file, idsOf(html)]))
  const problems: string[] = []
  let count = 0
  for (const [file, html] of pages) {
    for (const link of new Set(linksOf(html))) {
      count++
      if (!leads(file, link)) problems.push(`${file} links to ${link}, which does not exist`)
    }
  }
  console.log(`${count} links of ${pages.size} pages were checked`)
  return problems

  function leads(file: string, link: string): boolean {
    if (link.startsWith(`${REPOSITORY}/`)) return isInRepository(link)
    if (/^[a-z]+:|^\/\//i.test(link)) return true // another site
    const { pathname, hash } = new URL(link, `http://site${base}${file}`)
    const path = decodeURIComponent(pathname).slice(base.length)
    const page = [path, `${path}.html`, posix.join(path, 'index.html')].find((name) =>
      pages.has(name),
    )
    if (page === undefined) return path !== '' && existsSync(join(folder, path))
    return hash === '' || (anchors.get(page)?.has(decodeURIComponent(hash.slice(1))) ?? false)
  }
}

const idsOf = (html: string): ReadonlySet<string> =>
  new Set(Array.from(html.matchAll(/\sid="([^"]*)"/g), ([, id = '']) => decode(id)))

const linksOf = (html: string): readonly string[] =>
  Array.from(html.matchAll(/<a\s[^>]*?href="([^"]*)"/g), ([, href = '']) => decode(href))

const decode = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&')

function isInRepository(link: string): boolean {
  const [, path] = /^\/(?:blob|tree)\/main\/([^#]*)/.exec(link.slice(REPOSITORY.length)) ?? []
  return path === undefined || existsSync(join(ROOT, decodeURIComponent(path)))
}
