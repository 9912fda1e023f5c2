/** Values of labels, by their names. */
type Labels = Readonly<Record<string, string>>

export interface Counter {
  add(labels?: Labels, by?: number): void
}

export interface Histogram {
  observe(value: number, labels?: Labels): void
}

interface Metric {
  readonly name: string
  readonly lines: () => Iterable<string>
  readonly header: string
}

/** Of one metric. More, and the labels of what comes new are all `other`: agents come and go for years. */
const MAX_SERIES = 1000

/** Metrics of one gateway, and their text in the format of Prometheus (version 0.0.4). */
export class MetricSet {
  readonly #metrics: Metric[] = []

  /** Goes up only. Its name ends in `_total`. */
  counter(name: string, help: string): Counter {
    const series = new Series<{ value: number }>(() => ({ value: 0 }))
    this.#add({ name, help, type: 'counter' }, () =>
      series.lines(name, ({ value }) => [['', value]]),
    )
    return {
      add: (labels = {}, by = 1) => {
        series.of(labels).value += by
      },
    }
  }

  /** Asked when it is read. */
  gauge(name: string, help: string, read: () => number): void {
    this.#add({ name, help, type: 'gauge' }, () => [`${name} ${read()}`])
  }

  /** @param bounds upper, inclusive, ascending; what is above all of them is counted too */
  histogram(
    { name, help }: { readonly name: string; readonly help: string },
    bounds: readonly number[],
  ): Histogram {
    const series = new Series(() => ({ counts: bounds.map(() => 0), count: 0, sum: 0 }))
    this.#add({ name, help, type: 'histogram' }, () =>
      series.lines(name, ({ counts, count, sum }) => {
        let below = 0
        const buckets = bounds.map((bound, index): SampleLine => {
          below += counts[index] ?? 0
          return ['_bucket', below, { le: String(bound) }]
        })
        return [...buckets, ['_bucket', count, { le: '+Inf' }], ['_sum', sum], ['_count', count]]
      }),
    )
    return {
      observe: (value, labels = {}) => {
        const found = series.of(labels)
        const index = bounds.findIndex((bound) => value <= bound)
        if (index >= 0) found.counts[index] = (found.counts[index] ?? 0) + 1
        found.count += 1
        found.sum += value
      },
    }
  }

  text(): string {
    return this.#metrics.map(({ header, lines }) => `${[header, ...lines()].join('\n')}\n`).join('')
  }

  #add(
    { name, help, type }: { readonly name: string; readonly help: string; readonly type: string },
    lines: () => Iterable<string>,
  ): void {
    this.#metrics.push({ name, header: `# HELP ${name} ${help}\n# TYPE ${name} ${type}`, lines })
  }
}

/** Suffix of the name, value, further labels. */
type SampleLine = readonly [suffix: string, value: number, labels?: Labels]

class Series<T> {
  readonly #make: () => T
  readonly #all = new Map<string, T>()

  constructor(make: () => T) {
    this.#make = make
  }

  of(labels: Labels): T {
    const key = labelText(labels)
    const found = this.#all.get(key)
    if (found !== undefined) return found
    if (this.#all.size >= MAX_SERIES) return this.#others(labels)
    const made = this.#make()
    this.#all.set(key, made)
    return made
  }

  *lines(name: string, samplesOf: (value: T) => readonly SampleLine[]): Iterable<string> {
    for (const [labels, value] of this.#all) {
      for (const [suffix, sample, more] of samplesOf(value)) {
        const all = [labels, more === undefined ? '' : labelText(more)].filter(
          (each) => each !== '',
        )
        yield `${name}${suffix}${all.length > 0 ? `{${all.join(',')}}` : ''} ${sample}`
      }
    }
  }

  #others(labels: Labels): T {
    const key = labelText(Object.fromEntries(Object.keys(labels).map((each) => [each, 'other'])))
    const found = this.#all.get(key) ?? this.#make()
    this.#all.set(key, found)
    return found
  }
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }
const ESCAPED = /[\\"\n]/

function labelText(labels: Labels): string {
  let text = ''
  for (const name of Object.keys(labels)) {
    const value = labels[name] ?? ''
    // Nearly every value is as it is, and is looked up with every call.
    const escaped = ESCAPED.test(value)
      ? value.replaceAll(/[\\"\n]/g, (each) => ESCAPES[each] ?? each)
      : value
    text += `${text && ','}${name}="${escaped}"`
  }
  return text
}
