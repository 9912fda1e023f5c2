// The words of requests and of tools, in the form in which they are compared.

/** Words that say nothing about a tool, but are in the descriptions of some. */
const EVERYDAY_WORDS: ReadonlySet<string> = new Set(
  `a about am an and any are as at be been by call can could did do does for from had has have how i if in into is it its
  let me my need not of on or our please should so some than that the their them then there these they this to tool
  use was we were what when where which who why will with would you your`.split(/\s+/),
)

const ABBREVIATIONS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    app: ['application'],
    config: ['configuration'],
    db: ['database'],
    dir: ['directory'],
    doc: ['document'],
    docs: ['document'],
    env: ['environment'],
    img: ['image'],
    info: ['information'],
    js: ['javascript'],
    k8s: ['kubernetes'],
    mr: ['merge', 'request'],
    msg: ['message'],
    pr: ['pull', 'request'],
    repo: ['repository'],
    repos: ['repository'],
  }),
)

/** Words that users and servers have for the same thing. A word may be in several lines. */
const SYNONYMS = `
  add create new make insert post report
  apply update create
  change edit modify update patch replace set rename
  chart graph plot diagram draw visualise visualize generate
  check status verify validate lint pipeline
  choose pick select
  close quit exit stop terminate end kill
  comment note reply discussion
  container pod
  delete remove erase drop forget discard kill
  directory folder
  document page markdown
  dropdown select option
  emulate simulate pretend fake mock throttle
  error exception console log
  event happen history activity
  execute run evaluate invoke
  find search look query
  get show read retrieve fetch view display open contain content
  go navigate visit open url
  increase decrease scale replica
  issue ticket bug
  javascript script
  list all every enumerate
  location position gps
  member people person user
  message mail email chat
  mobile phone device android iphone
  move rename
  picture image photo screenshot
  press hit tap click push
  reaction emoji thumb like
  remember memory save store observation
  repository project
  scroll swipe
  send post publish
  shell command terminal exec
  size big large space
  slow performance speed fast
  start launch run begin
  table spreadsheet sheet database
  todo task
  type enter write text
  yaml manifest resource
`

/** Meanings of each stem: the numbers of its lines. */
const meanings = new Map<string, string[]>()
for (const [number, line] of SYNONYMS.trim().split('\n').entries()) {
  for (const word of line.trim().split(/\s+/).map(stemOf)) {
    meanings.set(word, [...(meanings.get(word) ?? []), `~${number}`])
  }
}

/** Returns the words of a text, in lower case: `create_issue` has two. */
export function wordsOf(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
}

/** Returns the name with a space between its words: `createIssue` becomes `create Issue`. */
export function spaced(name: string): string {
  return name.replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
}

/** Returns what is compared: the stems of the words of a text, and the meanings of each. */
export function termsOf(text: string): string[] {
  const stems = wordsOf(text)
    .filter((word) => !EVERYDAY_WORDS.has(word))
    .flatMap((word) => ABBREVIATIONS.get(word) ?? [word])
    .map(stemOf)
  return stems.flatMap((stem) => [stem, ...(meanings.get(stem) ?? [])])
}

/** Returns the terms of a query, each once. The name of a file says `file`, and the address of a page `url`. */
export function queryTermsOf(query: string): string[] {
  const plain = query.replaceAll(/https?:\/\/\S+|\b[\w-]+\.(?:com|dev|io|net|org)\b/gi, 'url')
  const file = /\w\.[a-z]{1,5}\b/i.test(plain) ? ' file' : ''
  return [...new Set(termsOf(plain + file))]
}

/** A meaning, in contrast to a stem. */
export function isMeaning(term: string): boolean {
  return term.startsWith('~')
}

/** Returns the part of an English word that its forms share: `issu` for `issues`, `merg` for `merging`. */
function stemOf(word: string): string {
  if (word.length < 4) return word
  const singular = word.replace(/ies$/, 'y').replace(/([^su])s$/, '$1')
  const stem = singular.replace(/(?:ing|ed)$/, '')
  return (stem.length < 3 ? singular : stem).replace(/e$/, '')
}
