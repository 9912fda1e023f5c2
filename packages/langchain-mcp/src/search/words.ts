// The words of requests and of tools, in the form in which they are compared.

/** Words that say nothing about a tool, but are in the descriptions of some. */
const EVERYDAY_WORDS: ReadonlySet<string> = new Set(
  `a about am an and any are as at be been by call can could did do does for from had has have how i if in into is it its
  let me my need not of on or our please should so some than that the their them then there these they this to tool
  use was we were what when where which why will with would you your`.split(/\s+/),
)

const ABBREVIATIONS: ReadonlyMap<string, readonly string[]> = new Map(
  `app application, config configuration, db database, dir directory, doc document, docs document, env environment,
  img image, info information, js javascript, k8s kubernetes, mr merge request, msg message, pr pull request,
  repo repository, repos repository`
    .split(',')
    .map((line) => wordsOf(line))
    .map(([short = '', ...words]) => [short, words]),
)

/** Words that users and servers have for the same thing, in groups. A word may be in several groups. */
const SYNONYMS = `
  account member people person team user who, add create new make insert post report, apply deploy update create,
  appointment calendar meeting schedule, archive zip compress, assign owner responsible, attach import upload,
  bill invoice pay payment, busy consumption cpu load usage, buy order purchase,
  change edit modify update patch replace set rename, chart graph plot diagram draw visualise visualize generate,
  check status verify validate lint pipeline, choose pick select, clone copy duplicate fork,
  close quit exit stop terminate end kill, column field property attribute,
  comment note reply discussion answer respond, connect connection link network relation, container pod,
  convert transform, cost price amount, count number total, credential key password secret token,
  customer client contact, delay pause sleep wait, delete remove erase drop forget discard kill,
  deploy release publish, dimension size resolution pixel, directory folder, document page markdown,
  download export save, dropdown select option, emulate simulate pretend fake mock throttle,
  error exception console log, event happen history activity, execute run evaluate invoke,
  film record recording video, find search look query, follow subscribe watch, forecast weather,
  get show read retrieve fetch view display open contain content, go navigate visit open url,
  health reachable alive ping available, hierarchy organization structure tree, increase decrease scale replica,
  issue ticket bug, javascript script, knowledge know memory, label tag, list all every everything enumerate,
  location position gps, login sign auth, message mail email chat, mobile phone device android iphone, move rename,
  percent proportion ratio share, permission access role right, picture image photo screenshot,
  press hit tap click push hold, reaction emoji thumb like, remember memory save store observation,
  repository project, restore revert rollback undo, row record entry item, scroll swipe, send post publish,
  shell command terminal exec, size big large space, slow performance speed fast, start launch run begin,
  summarise summarize summary, table spreadsheet sheet database, todo task, translate language,
  type enter write text, yaml manifest resource
`

/** Meanings of each stem: the numbers of its groups. */
const meanings = new Map<string, string[]>()
for (const [number, group] of SYNONYMS.split(',').entries()) {
  for (const word of wordsOf(group).map(stemOf)) {
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

/** Returns the stems of the words of a text, in which texts are compared. */
export function stemsOf(text: string): string[] {
  return wordsOf(text)
    .filter((word) => !EVERYDAY_WORDS.has(word))
    .flatMap((word) => ABBREVIATIONS.get(word) ?? [word])
    .map(stemOf)
}

/** Returns the stems of a query, each once. The name of a file says `file`, and the address of a page `url`. */
export function queryStemsOf(query: string): ReadonlySet<string> {
  const plain = query.replaceAll(/https?:\/\/\S+|\b[\w-]+\.(?:com|dev|io|net|org)\b/gi, 'url')
  const file = /\w\.[a-z]{1,5}\b/i.test(plain) ? ' file' : ''
  return new Set(stemsOf(plain + file))
}

/** Returns the meanings of a stem. Each differs from all stems, and words with the same meaning share it. */
export function meaningsOf(stem: string): readonly string[] {
  return meanings.get(stem) ?? []
}

/** Returns the part of an English word that its forms share: `issu` for `issues`, `tap` for `tapped`. */
function stemOf(word: string): string {
  if (word.length < 4) return word
  const singular = word.replace(/ie[sd]$/, 'y').replace(/([^su])s$/, '$1')
  const stem = singular.replace(/(?:ing|ed)$/, '').replace(/([bdgmnprt])\1$/, '$1')
  return (stem.length < 3 ? singular : stem).replace(/(?:e|ion)$/, '')
}
