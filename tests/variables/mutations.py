"""Variables of many kinds, and code that changes them."""

import io
import sqlite3
from collections.abc import Mapping
from typing import Any

WORLD = """
import array, collections, contextlib, ctypes, dataclasses, decimal, functools, hashlib, io, itertools, mmap, queue
import random, sqlite3, threading, types, weakref, xml.etree.ElementTree
import networkx, numpy as np, pandas as pd, polars as pl, pyarrow as pa, scipy.sparse, xarray
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

class Model:
    made = 0
    seen = []
    def __init__(self):
        self.weights, self.history = np.zeros(3), []
    def fit(self):
        self.weights += 1
        self.history.append(0.5)
        self.loss = 0.1
    def note(self):
        type(self).made += 1
        self.seen.append(1)
        journal.append('fit')

class Slotted:
    __slots__ = ('left', 'right')
    def __init__(self):
        self.left = [1]

class Stack(list):
    limit = 3
    def clear(self):
        raise RuntimeError('it cannot be cleared')
    def __iter__(self):
        return iter(())

class Registry(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, 'noted'))

class Tags(set):
    pass

class Ring(collections.deque):
    pass

class Ledger(collections.OrderedDict):
    pass

@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    steps: list = dataclasses.field(default_factory=lambda: [1])

@dataclasses.dataclass(slots=True)
class Point:
    x: int = 1
    path: list = dataclasses.field(default_factory=list)

Pair = collections.namedtuple('Pair', 'left right')

class Array(np.ndarray):
    pass

def make_counter():
    count, seen = 0, []
    def step():
        nonlocal count
        count += 1
        seen.append(count)
    return step

def remember(one, seen=[]):
    seen.append(one)

def add_entry():
    journal.append('entry')

journal = []
frame = pd.DataFrame({'a': [1, 2, 3], 'b': [1.5, None, 2.5], 'c': ['x', 'y', 'z']}, index=list('pqr'))
alias = frame
series = pd.Series([3, 1, 2], name='s')
floats = pd.Series([0.0, 1.0, 2.0])
grouped = pd.DataFrame({'k': pd.Categorical(['u', 'v']), 't': pd.to_datetime(['2020-01-01', '2021-01-01'])})
objects = pd.DataFrame({'o': pd.Series([[1], {'k': 1}, 1], dtype=object), 'n': [1, 2, 3]})
deep = pd.DataFrame({'x': [1, 2], 'y': [3, 4]}, index=pd.MultiIndex.from_tuples([('a', 1), ('b', 2)], names=['l', 'm']))
labels = pd.Index(['x', 'y'], name='old')
noted = pd.DataFrame({'n': [1]})
noted.attrs['source'] = 'a'
with contextlib.suppress(Exception):
    object.__setattr__(noted, 'remark', [1])
table = pl.DataFrame({'a': [1, 2], 's': ['u', 'v']})
column = pl.Series('p', [3, 1, 2])
dataset = xarray.Dataset({'v': ('x', [1.0, 2.0])}, coords={'x': [0, 1]})
matrix = np.arange(6.0).reshape(2, 3)
zeros = np.array([0.0, 1.0, np.nan])
owned = np.arange(6.0)
words = np.array(['a', [1]], dtype=object)
mask = np.array([True, False])
whole = np.arange(8)
part = whole[::2]
rows = np.array([(1, 2.0)], dtype=[('i', 'i4'), ('f', 'f8')])
hidden = np.ma.array([1, 2, 3], mask=[0, 1, 0])
own_array = np.arange(3).view(Array)
own_array.unit = ['m']
locked = np.arange(3)
locked.setflags(write=False)
fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
days = np.array(['2020-01-01'], dtype='datetime64[D]')
kinds = pd.Categorical(['u', 'v', 'u'])
nullable = pd.array([1, None, 3], dtype='Int64')
numbers = array.array('d', [1.0, 2.0])
csr = scipy.sparse.csr_matrix(np.eye(3))
lil = scipy.sparse.lil_matrix(np.eye(2))
dok = scipy.sparse.dok_matrix(np.eye(2))
inner = [1, 2]
items = [3, 1, inner]
nested = {'a': {'b': [1]}, 'inner': inner, 'frame': frame}
group = {1, 2}
queued = collections.deque([1, 2], maxlen=3)
counts = collections.Counter('aab')
defaults = collections.defaultdict(list, x=[1])
ordered = collections.OrderedDict(a=1, b=2)
raw = bytearray(b'abc')
stack = Stack([1, 2])
stack.name = ['s']
registry = Registry(a=1)
registry.owner = 'me'
tags = Tags({1, 2})
tags.note = 'n'
ring = Ring([1, 2])
ring.note = 'n'
ledger = Ledger(a=1, b=2)
ledger.note = [1]
user_dict = collections.UserDict(a=1)
user_list = collections.UserList([1])
chain = collections.ChainMap({'a': 1}, {'b': 2})
couple = ([1], [2])
pair = Pair([1], {'a': 1})
place = types.SimpleNamespace(x=1, parts=[1])
loop = [1]
loop.append(loop)
model = Model()
models = {'first': Model(), 'second': Model()}
slotted = Slotted()
settings = Settings()
point = Point()
fitted = LinearRegression().fit([[0], [1]], [0, 1])
classifier = SGDClassifier(max_iter=5, tol=None, random_state=0).fit([[0], [1]], [0, 1])
pipeline = make_pipeline(StandardScaler(), LinearRegression()).fit([[0.0], [1.0]], [0, 1])
forest = RandomForestClassifier(n_estimators=2, random_state=0).fit([[0], [1]], [0, 1])
clusters = KMeans(n_clusters=2, n_init=1, random_state=0).fit([[0.0], [1.0], [5.0]])
graph = networkx.Graph([(1, 2), (2, 3)])
dice = random.Random(1)
rng = np.random.default_rng(1)
old_rng = np.random.RandomState(1)
bits = np.random.PCG64(1)
step = make_counter()
adding = items.append
adding_more = functools.partial(list.append, inner)
failure = ValueError('old')
number, text, gone = 7, 'old', [1]
"""

FRAMES = """
frame['new'] = 1
frame.loc['p', 'a'] = 99
frame.iloc[0, 1] = -1.0
frame.drop(columns='a', inplace=True)
frame.drop(index='p', inplace=True)
frame.dropna(inplace=True)
frame.rename(columns={'a': 'z'}, inplace=True)
frame.columns = ['x', 'y', 'z']
frame.index = [7, 8, 9]
frame.index.name = 'id'
frame.columns.name = 'fields'
frame.sort_values('a', ascending=False, inplace=True)
frame.sort_index(ascending=False, inplace=True)
frame.reset_index(inplace=True)
frame['a'] = frame['a'].astype(float)
frame['a'] = frame['a'].astype('int32')
frame['a'] = True
frame.attrs['source'] = 'made up'
frame.insert(0, 'first', 0)
frame.pop('b')
del frame['c']
frame.fillna(0, inplace=True)
frame.update(pd.DataFrame({'a': [9]}, index=['q']))
frame = frame.head(1)
alias['through'] = 1
nested['frame']['deep'] = 1
frame.loc['new'] = [1, 2.0, 'n']
frame.replace(1, 2, inplace=True)
frame.mask(frame['a'] > 1, inplace=True)
frame.where(frame['a'] > 1, inplace=True)
frame['a'] = frame['a'].clip(upper=2)
frame.eval('d = a + 1', inplace=True)
frame.query('a > 1', inplace=True)
frame['a'] = 1; frame.drop_duplicates(subset='a', inplace=True)
frame.set_index('a', inplace=True)
frame.flags.allows_duplicate_labels = False
frame.at['q', 'b'] = 5.0
frame.iat[0, 0] = -5
frame[['a', 'b']] = 0
frame.loc[:, 'c'] = 'w'
frame.loc[frame['a'] > 1, 'a'] = 0
frame['b'] = frame['b'].ffill()
frame['c'] = frame['c'].str.upper()
series.iloc[0] = 9
series.sort_values(inplace=True)
series.name = 'renamed'
series['more'] = 1
series.drop(0, inplace=True)
series += 1
series.index = list('abc')
series[series > 1] = 0
series = series.astype(float)
floats[0] = -0.0
floats[1] = np.nan
floats.loc[2] = np.float64('inf')
grouped['k'] = grouped['k'].cat.add_categories('w')
grouped['t'] += pd.Timedelta(days=1)
grouped.set_index('t', inplace=True)
grouped.loc[0, 'k'] = 'v'
grouped['t'] = grouped['t'].dt.tz_localize('UTC')
objects.loc[0, 'o'].append(2)
objects['o'].iloc[1]['new'] = 2
objects.loc[2, 'o'] = True
objects.at[2, 'o'] = 1.0
objects['n'] = objects['n'].astype(object)
deep.loc[('a', 1), 'x'] = 9
deep.index.names = ['q', 'r']
deep.sort_index(ascending=False, inplace=True)
deep.reset_index(level='m', inplace=True)
deep.columns = pd.MultiIndex.from_tuples([('t', 'x'), ('t', 'y')])
labels.name = 'new'
noted['n'] = 2
noted.remark.append(2); noted['m'] = 1
noted.attrs['source'] = 'b'
table.insert_column(0, pl.Series('z', [0, 0]))
table.columns = ['q', 'r']
table.drop_in_place('a')
table = table.head(1)
table[0, 'a'] = 9
table.extend(pl.DataFrame({'a': [3], 's': ['w']}))
table.replace_column(0, pl.Series('a', [7, 8]))
table.hstack([pl.Series('n', [1, 2])], in_place=True)
column[0] = 9
column.append(pl.Series('p', [4]))
column.sort(in_place=True)
column.rename('q'); column[1] = 5
dataset['w'] = ('x', [5.0, 6.0])
dataset['v'][0] = 9.0
dataset.attrs['unit'] = 'm'
"""

ARRAYS = """
matrix += 1
matrix[0, 0] = 9
matrix[:] = 0
matrix[::-1].sort(axis=0)
matrix.fill(3)
matrix[matrix > 2] = 0
np.negative(matrix, out=matrix)
matrix.T[0] = 5
matrix = matrix.astype(int)
matrix.resize((3, 2), refcheck=False)
owned.resize(3, refcheck=False)
owned.resize((2, 5), refcheck=False)
owned.shape = (3, 2)
owned.dtype = 'i8'
matrix.sort(axis=1); matrix[0] = matrix[0][::-1].copy()
matrix.setflags(write=False)
matrix.flat[2] = 7
matrix.put([0, 1], [7, 8])
matrix.partition(1); matrix[0] = 4
matrix.byteswap(inplace=True)
np.copyto(matrix, 2)
np.random.default_rng(0).shuffle(whole)
matrix[..., 0] *= 2
np.fill_diagonal(matrix, 5)
np.place(matrix, matrix > 1, [9])
zeros[0] = -0.0
zeros[2] = 0
np.nan_to_num(zeros, copy=False)
words[0] = 'b'
words[1].append(2)
words[:] = None
mask[:] = ~mask
mask |= True
whole[0] = 7
part[:] = 0
part += 1
whole.sort(); whole[:] = whole[::-1].copy()
rows['i'] = 5
rows[0] = (9, 9.0)
hidden[1] = 5
hidden.mask = [1, 0, 0]
hidden[0] = np.ma.masked
hidden.fill_value = 7
own_array[0] = 9
own_array.unit.append('s')
own_array.unit = None
locked.setflags(write=True); locked[0] = 9
fortran[1, 2] = 9
days += 1
days[0] = 'NaT'
kinds[0] = 'v'
nullable[0] = 9
nullable[1] = 5
numbers.append(3.0)
numbers[0] = 5.0
numbers.pop()
csr.data[0] = 9
csr[0, 0] = 5
csr.eliminate_zeros(); csr.data *= 2
lil[0, 1] = 3
dok[0, 1] = 3
"""

CONTAINERS = """
items.append(4)
items.sort(key=str)
items.clear()
items[2].append(3)
items[:] = []
items.reverse()
items += [1]
items *= 2
items.insert(0, 'first')
items.remove(3)
items[0], items[1] = items[1], items[0]
del items[0]
nested['a']['b'].append(2)
nested['a']['b'] = 7
nested.update(z=1)
nested.clear()
nested.pop('a')
nested.popitem()
nested.setdefault('n', [])
nested['inner'].clear()
nested['inner'] = None
nested |= {'m': 1}
nested['a'] = nested.pop('a')
group.add(3)
group.clear()
group &= {1}
group.discard(1)
group ^= {2, 3}
queued.append(5)
queued.rotate(1)
queued.popleft()
queued.extendleft([7, 8])
counts.update('abc')
counts['z'] += 1
counts.subtract('aa')
defaults['new'].append(1)
defaults['x'].append(2)
defaults['untouched']
defaults.default_factory = None
ordered.move_to_end('a')
ordered['c'] = 3
ordered.popitem(last=False)
ordered.clear()
raw[0] = 0
raw.extend(b'd')
raw.clear()
raw.reverse()
stack.append(3)
stack.name.append('t')
stack.name = 'other'
stack.limit = 9
list.clear(stack)
registry['b'] = 2
registry.owner = 'you'
registry.clear()
dict.update(registry, a=5)
tags.add(3)
tags.note = 'other'
tags.clear()
ring.append(3)
ring.note = 'other'
ledger.move_to_end('a')
ledger.note.append(2)
del ledger['a']
user_dict['b'] = 2
user_list.append(2)
chain['c'] = 3
chain.maps.append({})
couple[0].append(1)
pair.right['b'] = 2
place.x = 2
place.parts.append(2)
place.new = 1
del place.x
loop.append(2)
loop[1] = None
adding(9)
adding_more(9)
[one.append(0) for one in couple]
globals()['items'].append(1)
exec("items.append(2)")
number += 1
text = text + '!'
del number
made = frame.copy()
for i in range(3): made = i
items = nested = None
frame, series = series, frame
import math
gone.append(2); del gone
(lambda: items.append(1))()
class Late: pass
def touch(): frame.loc['p', 'a'] = 5\\ntouch()
def late(): return inner.append(1)\\nlate()
"""

OBJECTS = """
model.fit()
model.note()
model.weights = None
model.history.extend([1, 2])
del model.weights
model.__dict__.clear()
model.__class__ = Settings
models['first'].fit()
models['second'].note()
models['first'].weights[0] = 7
models['third'] = Model()
[one.fit() for one in models.values()]
Model.made = 5
Model.seen.append(2)
Model.fit = None
Model.extra = 1
del Model.seen
setattr(model, 'any', 1)
vars(model).update(z=1)
slotted.left.append(2)
slotted.left = None
slotted.right = 1
del slotted.left
settings.rate = 0.9
settings.steps.append(2)
settings.extra = 1
point.x = 9
point.path.append(1)
step()
step(); step()
remember(1)
remember.calls = 1
remember.__defaults__ = ([7],)
add_entry()
failure.args = ('new',)
failure.add_note('n')
failure.code = 7
fitted.fit([[0], [1]], [5, 7])
fitted.coef_[0] = 9
fitted.set_params(fit_intercept=False)
fitted.intercept_ = 3.0
classifier.partial_fit([[3]], [1])
classifier.coef_ += 1
pipeline.fit([[1.0], [4.0]], [3, 9])
pipeline.set_params(linearregression__fit_intercept=False)
pipeline.named_steps['standardscaler'].mean_[0] = 5
pipeline.steps.pop()
forest.fit([[0], [1], [2]], [1, 0, 1])
forest.estimators_.pop()
clusters.fit([[0.0], [9.0]])
clusters.cluster_centers_ += 1
graph.add_edge(3, 4)
graph.remove_node(1)
graph.nodes[2]['colour'] = 'red'
dice.random()
dice.seed(7)
dice.gauss(0, 1)
rng.random(10)
rng.shuffle([1, 2, 3])
old_rng.rand(3)
old_rng.seed(5)
bits.random_raw()
"""

OTHERS = {
    "connection = sqlite3.connect(':memory:')": "connection.execute('create table t (x)')",
    "steps = (one for one in range(3))": "next(steps)",
    "mapped = np.memmap('mapped.bin', dtype='u1', mode='w+', shape=8)": "mapped[0] = 1",
    "counting = itertools.count()": "next(counting)",
    "buffer = io.StringIO('abc')": "buffer.write('z')",
    "bytes_buffer = io.BytesIO(b'abc')": "bytes_buffer.read(1)",
    "handle = open('handle.txt', 'w')": "handle.write('x')",
    "waiting = queue.Queue()": "waiting.put(1)",
    "lock = threading.Lock()": "lock.acquire()",
    "cached = functools.lru_cache(lambda one: one)": "cached(1)",
    "digest = hashlib.sha256()": "digest.update(b'x')",
    "memory = mmap.mmap(-1, 8)": "memory[0] = 1",
    "numbers_in_c = (ctypes.c_int * 3)()": "numbers_in_c[0] = 1",
    "one_by_one = iter([1, 2, 3])": "next(one_by_one)",
    "both = zip([1], [2])": "next(both)",
    "walk = np.nditer(np.arange(3))": "next(walk)",
    "tree = xml.etree.ElementTree.Element('a')": "tree.append(xml.etree.ElementTree.Element('b'))",
    "context = decimal.Context()": "context.prec = 3",
    "held = pl.DataFrame({'o': pl.Series([object()], dtype=pl.Object)})": "held.insert_column(0, pl.Series('n', [1]))",
    "looked_at = memoryview(bytearray(b'abc'))": "looked_at[0] = 0",
    "seen_once = weakref.WeakValueDictionary(m=model)": "del seen_once['m']",
    "batches = pa.table({'a': [1]}).to_reader()": "batches.read_next_batch()",
    "event = threading.Event()": "event.set()",
    "sink = pa.BufferOutputStream()": "sink.write(b'x')",
}
"""What cannot be kept, with code that changes it."""


def lines_of(codes: str) -> list[str]:
    return [line.replace("\\n", "\n") for line in codes.strip().splitlines()]


MUTATIONS = [*lines_of(FRAMES), *lines_of(ARRAYS), *lines_of(CONTAINERS), *lines_of(OBJECTS)]


def world() -> dict[str, Any]:
    """The variables, as a notebook has them."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(WORLD, namespace)
    return namespace


def own_names(namespace: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in namespace.items() if name[0] != "_"}


def close_all(namespace: Mapping[str, Any]) -> None:
    """Files and connections, so that none is left to the garbage collector."""
    for one in namespace.values():
        if isinstance(one, io.IOBase | sqlite3.Connection):
            one.close()
