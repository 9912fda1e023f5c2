import { meaningsOf, queryStemsOf, stemsOf } from './words.ts'

/** The texts of a document, and how much a word says in each of them. */
export type WeightedTexts = readonly (readonly [text: string, weight: number])[]

/** Parameters of BM25: how soon more of the same word adds little, and how much the length of a text counts. */
const SATURATION = 3
const LENGTH_SHARE = 0.6
/** Other forms of a word of the query count less than the word itself. */
const MEANING_SHARE = 0.75
const PREFIX_SHARE = 0.5
const TYPING_ERROR_SHARE = 0.3

/**
 * Scores documents by the words of their texts, as BM25F does. A word of the query counts once, by its best form: itself,
 * a word with the same meaning, a longer word that starts with it, or a word that differs in one letter.
 */
export class WordIndex {
  readonly #ids: readonly string[]
  /** Terms are stems and meanings. Each has the numbers of its documents, and how much it says about them. */
  readonly #documents = new Map<string, Map<number, number>>()

  /** Each document has the same number of texts. */
  constructor(documents: ReadonlyMap<string, WeightedTexts>) {
    this.#ids = [...documents.keys()]
    const all = Array.from(documents.values(), (texts) =>
      texts.map(([text, weight]) => ({ stems: stemsOf(text), weight })),
    )
    const lengths = all.reduce<number[]>(
      (sums, texts) => texts.map(({ stems }, field) => (sums[field] ?? 0) + stems.length),
      [],
    )
    for (const [number, texts] of all.entries()) {
      for (const [field, { stems, weight }] of texts.entries()) {
        const relativeLength = (stems.length * all.length) / (lengths[field] ?? 1)
        const part = weight / (1 - LENGTH_SHARE + LENGTH_SHARE * relativeLength)
        for (const term of stems.flatMap((stem) => [stem, ...meaningsOf(stem)])) {
          const numbers = this.#documents.get(term) ?? new Map<number, number>()
          numbers.set(number, (numbers.get(number) ?? 0) + part)
          this.#documents.set(term, numbers)
        }
      }
    }
  }

  /** Returns the scores of the documents that have a word of the query, by their ids. */
  scores(query: string): ReadonlyMap<string, number> {
    const scores = new Map<number, { sum: number; words: number }>()
    for (const stem of queryStemsOf(query)) {
      const found = this.#scoresOf(stem)
      const best = Math.max(...found.values())
      for (const [number, score] of found) {
        const { sum, words } = scores.get(number) ?? { sum: 0, words: 0 }
        scores.set(number, { sum: sum + score, words: words + score / best })
      }
    }
    // A document with two words of the query is meant rather than one with a rarer word.
    return new Map(
      Array.from(scores, ([number, { sum, words }]) => [this.#ids[number] ?? '', sum * words]),
    )
  }

  #scoresOf(stem: string): ReadonlyMap<number, number> {
    const best = new Map<number, number>()
    for (const [term, share] of this.#formsOf(stem)) {
      const numbers = this.#documents.get(term) ?? new Map<number, number>()
      const rarity = Math.log(1 + (this.#ids.length - numbers.size + 0.5) / (numbers.size + 0.5))
      for (const [number, frequency] of numbers) {
        const score = (share * rarity * frequency) / (frequency + SATURATION)
        if (score > (best.get(number) ?? 0)) best.set(number, score)
      }
    }
    return best
  }

  /** Returns the terms that stand for a word of the query, and how much each counts. */
  #formsOf(stem: string): (readonly [term: string, share: number])[] {
    const meanings = meaningsOf(stem).map((meaning) => [meaning, MEANING_SHARE] as const)
    if (stem.length < 4) return [[stem, 1], ...meanings]
    const isMistyped = stem.length > 5 && !this.#documents.has(stem)
    const shareOf = (term: string): number => {
      if (term === stem) return 1
      if (term.startsWith(stem)) return PREFIX_SHARE
      return isMistyped && differInOneLetter(term, stem) ? TYPING_ERROR_SHARE : 0
    }
    const similar = Array.from(this.#documents.keys(), (term) => [term, shareOf(term)] as const)
    return [...meanings, ...similar.filter(([, share]) => share > 0)]
  }
}

/** Returns true if one letter was replaced, added or left out. */
function differInOneLetter(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a]
  if (long.length - short.length > 1) return false
  let at = 0
  while (at < short.length && short[at] === long[at]) at++
  const rest = long.slice(at + 1)
  return rest === short.slice(at) || rest === short.slice(at + 1)
}
