// Changes pages for the site: links between files become links between pages, diagrams become pictures.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { renderMermaidSVG } from 'beautiful-mermaid'
import type { MarkdownRenderer } from 'vitepress'
import { changes, CHANGES_MARK } from './changes.ts'
import { API, ROOT, siteAddress, sitePages } from './pages.ts'

/** Address of the repository on its forge. */
export const REPOSITORY: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  .repository.url

/** Where a path of a picture begins that Vite would take for the name of a package. */
const RELATIVE_PICTURE = /(?<=\s(?:src|srcset)=")(?=[\w-]+\/)/g

/** Adds the rules of this site to the Markdown of VitePress. */
export function extendMarkdown(md: MarkdownRenderer): void {
  const pages = new Set(sitePages())
  md.core.ruler.before('normalize', 'changes', (state) => {
    if (state.src.includes(CHANGES_MARK)) {
      state.src = state.src.replace(CHANGES_MARK, () => changes())
    }
  })
  md.core.ruler.after('inline', 'links-of-files', (state) => {
    const page = relative(ROOT, state.env.realPath ?? state.env.path)
    for (const token of state.tokens.flatMap((block) => [block, ...(block.children ?? [])])) {
      if (token.type === 'html_block' || token.type === 'html_inline') {
        token.content = token.content.replaceAll(RELATIVE_PICTURE, './')
      }
      const href = token.type === 'link_open' ? token.attrGet('href') : null
      if (href !== null) token.attrSet('href', siteLink(page, href, pages))
    }
  })
  const fence = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const token = tokens[index]
    if (token?.info.trim() === 'mermaid') return diagram(token.content)
    return fence?.(tokens, index, ...rest) ?? ''
  }
}

/**
 * Link on the site for a link in a file: an address of a page, or of the repository for all other files.
 * `checkLinks()` finds those that do not exist.
 */
export function siteLink(page: string, href: string, pages: ReadonlySet<string>): string {
  if (/^(?:[a-z]+:|#|\/)/i.test(href) || page.startsWith(`${API}/`)) return href
  const [path = '', anchor] = href.split('#')
  const target = posix.join(posix.dirname(page), decodeURI(path)).replace(/\/$/, '')
  const place = join(ROOT, target)
  const isFolder = existsSync(place) && statSync(place).isDirectory()
  const file = isFolder ? posix.join(target, 'README.md') : target
  const hash = anchor === undefined ? '' : `#${anchor}`
  if (pages.has(file)) return siteAddress(file) + hash
  return `${REPOSITORY}/${isFolder ? 'tree' : 'blob'}/main/${target}${hash}`
}

/** Anchor of a heading, as forges make it. Links of typedoc leave out an underscore in front. */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .replaceAll(' ', '-')
    .replace(/^_+/, '')
}

/** The picture of a Mermaid diagram, in the colours of the theme. It loads no font. */
function diagram(code: string): string {
  const svg = renderMermaidSVG(code, { bg: 'var(--vp-c-bg)', fg: 'var(--vp-c-text-1)' })
  const html = JSON.stringify(svg.replaceAll(/@import url\([^)]*\);/g, ''))
  // Vue compiles no picture: as a part of a template, its last node was missing in the browser.
  return `<div class="diagram" v-html="${html.replaceAll('&', '&amp;').replaceAll('"', '&quot;')}"></div>\n`
}
