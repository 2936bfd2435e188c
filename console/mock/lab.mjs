// Results of the lab: a paper with two experiments, and one experiment alone.
const HEADLINE = {
  name: 'emc',
  experiment: 'emc/headline',
  verdict: 'failed',
  title: 'IOPS of 8 KB, 90 % reads, under one millisecond',
  question: 'At which rate does the slowest hundredth of reads and writes still take less than 1 ms?',
  answer: 'With 99 of 100 answered within 1 ms: 21,400 requests a second on ashlar-main and 18,100 on plain; published: 200,000.',
  preset: 's',
  targets: ['ashlar:main', '/mnt/plain'],
  begun_unix_seconds: 1_795_893_095,
  checks: [
    { name: 'steady', rule: 'In the last five rounds of a run the rate stays within 20 %', answer: 'passed', found: 'it holds for 30 of 30 runs' },
    { name: 'equal', rule: 'The two targets are equal within 5 %', answer: 'failed', found: 'ashlar-main is 1.18 (1.09 to 1.27)' },
    { name: 'latency', rule: 'No request takes more than 10 ms', answer: 'cannot-tell', found: 'about 3 more repetitions would help' },
  ],
  metrics: [
    {
      metric: 'iops.under(1ms)',
      published: 200_000,
      note: 'more than; about 1 ms on average',
      rows: [
        { target: 'ashlar-main', of: '', value: 21_400, interval: [19_900, 22_800] },
        { target: 'plain', of: 'rate-16k', value: 18_100, interval: [17_000, 19_200] },
        { target: 'spare', of: '' },
      ],
    },
  ],
};

export const PAPER = {
  name: 'emc',
  experiment: 'emc',
  verdict: 'failed',
  preset: 's',
  targets: ['ashlar:main', '/mnt/plain'],
  begun_unix_seconds: 1_795_893_000,
  parts: [
    { name: 'headline', experiment: HEADLINE.experiment, title: HEADLINE.title, question: HEADLINE.question, answer: HEADLINE.answer, verdict: 'failed' },
    {
      name: 'thin-provisioning',
      experiment: 'emc/thin-provisioning',
      title: 'What a larger volume costs',
      question: 'Does a volume cost what is written to it?',
      answer: 'The ratio of x4 to x1 in MB on the drives is 1.00 (1.00 to 1.00) on ashlar-main; published: 1.00. All 5 checks passed.',
      verdict: 'passed',
    },
    { experiment: 'emc/soak', title: 'Hours of full load', question: 'Does it last?', answer: 'it was interrupted', verdict: 'not-valid' },
  ],
};

export function resultOf(result, part) {
  if (result !== PAPER.name) return undefined;
  if (part === undefined) return PAPER;
  return part === 'headline' ? HEADLINE : undefined;
}
